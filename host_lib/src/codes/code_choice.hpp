// What BOUNDED reads next (sections 13.5 and 13.6 of ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codes/code_errors.hpp"
#include "codes/code_state.hpp"
#include "codes/row_errors.hpp"

namespace nearkv {

inline constexpr int kLeastThreshold = ErrorHistogram::kLeastThreshold;
inline constexpr int kThresholdStep = 4;

/// One granule that is chosen: what there will be of it.
struct GranuleChoice {
  std::uint32_t page;
  std::uint8_t granule;
  std::uint8_t planes;  ///< No fewer than now.
  std::uint64_t rows;   ///< Tokens whose rows are read, besides those that have been.
};

/// What is to be read of both tensors, in page order.
struct CodeChoice {
  std::vector<GranuleChoice> keys;
  std::vector<GranuleChoice> values;

  void clear() {
    keys.clear();
    values.clear();
  }
};

/// t. `last` is that of the round before, if it bounds this one.
[[nodiscard]] int code_threshold(const CodeState& state, const ErrorHistogram& keys,
                                 const ErrorHistogram& values, std::optional<int> last);

/// Chooses among granules whose error is worth a read at a threshold. It holds buffers of a page.
class GranuleChooser {
 public:
  /// What it is given must outlive it.
  void begin(const CodeState* state, const RowErrors* errors, std::size_t value_dim);

  void choose(int threshold, CodeChoice* choice);

 private:
  struct Levels;

  /// A tensor's granules of a page.
  struct PageGranules {
    std::size_t page;
    const std::int16_t* errors;
    const std::uint8_t* planes;
    std::uint64_t chosen;  ///< As bits.
    std::uint64_t unread;  ///< Tokens without a row.
  };

  void choose_of(const PageGranules& some, const Levels& levels, const Granules& granules,
                 int worth, std::vector<GranuleChoice>* choices);
  void find_key_errors(std::size_t page, int worth, int now, int planes);
  void find_prices(std::size_t page, int worth, int planes);

  const CodeState* state_ = nullptr;
  const RowErrors* errors_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  ValueLengths lengths_{};
  std::vector<ErrorRow> rows_;  // That are left, as what follows.
  std::vector<KeyRest> key_rests_;
  std::vector<PriceRest> price_rests_;
  AlignedNumbers<std::int16_t> token_errors_;  // Against what a burst is worth.
};

}  // namespace nearkv

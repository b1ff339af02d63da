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

/// What is chosen of one page.
struct PageChoice {
  std::uint32_t page = 0;      ///< Among the listed ones.
  std::uint64_t key_rows = 0;  ///< Tokens whose rows are read, besides those that have been.
  std::uint64_t value_rows = 0;
  PlaneTokens key_planes{};  ///< Tokens of granules that get so many planes, more than now.
  ValueTokens value_planes{};

  [[nodiscard]] bool has_rows() const { return (key_rows | value_rows) != 0; }
  [[nodiscard]] bool has_keys() const {
    return (key_rows | key_planes[2] | key_planes[3] | key_planes[4]) != 0;
  }
  [[nodiscard]] bool has_values() const {
    return (value_rows | value_planes[2] | value_planes[3]) != 0;
  }
};

/// What is to be read, in page order.
struct CodeChoice {
  std::vector<PageChoice> pages;
  std::uint64_t key_planes = 0;  ///< Of granules, all of them.
  std::uint64_t value_planes = 0;
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
  /// A tensor's granules of a page.
  struct PageGranules {
    std::size_t page;
    const std::int16_t* errors;
    const std::uint8_t* planes;
    std::uint64_t unread;  ///< Tokens without a row.
  };

  template <typename Tokens, typename FindErrors>
  std::uint64_t choose_of(const PageGranules& some, const PlaneLevels& levels,
                          const Granules& granules, int worth, const FindErrors& find_errors,
                          Tokens* tokens, std::uint64_t* planes);
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

// A list as nkv_sample_rounds sees it, and what its rounds should do with it, by the model's levels
// and draws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "midpoint_logits.hpp"
#include "sampling.hpp"
#include "support/seed.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kRows = 8;
inline constexpr unsigned kTokens = 64;
inline constexpr std::int32_t kLimit = 32767;
inline constexpr std::uint64_t kAllTokens = ~std::uint64_t{0};
inline constexpr std::int64_t kOctave = 1 << 24;

struct Form {
  std::uint8_t k_form;
  std::uint8_t v_form;
  std::uint8_t dtype;
};

struct RoundsPage {
  std::uint64_t visible = kAllTokens;
  Form form{};
  std::array<std::array<std::int32_t, kTokens>, kRows> midpoints{};
};

struct RoundsVisit {
  std::size_t page;
  std::uint64_t tokens;
  bool sums;
  std::uint64_t sampled;
};

struct RoundsSampled {
  std::array<std::int64_t, kRows> logits{};
  int halvings = 0;
  std::size_t group = 0;
};

/// What the sums are made to say of a round.
struct Measured {
  std::array<std::optional<std::int64_t>, kRows> log_bounds{};
  bool all_within = false;
};

/// A list of pages all in sight, and the command.
struct RoundsCase {
  float scale = 0.1F;
  int key_exponent = 127;
  unsigned rows = kRows;
  std::array<int, kRows> query_exponents{};
  std::array<std::int64_t, kRows> references{};
  std::array<int, kRows> shifts{};
  std::uint16_t head_dim = 128;
  std::uint16_t value_dim = 128;
  std::uint8_t byte_cap = 0;
  std::uint32_t seed = 0;
  std::uint32_t scan_bursts = 0;
  std::int64_t log_error = 0;
  std::vector<RoundsPage> pages;

  /// Tokens of a page that are read before any sample.
  [[nodiscard]] std::uint64_t exact(const RoundsPage& page) const;

  /// The highest and the lowest midpoint of a row that is not saturated.
  [[nodiscard]] std::pair<std::int32_t, std::int32_t> range(unsigned row) const;

  /// Bursts of a visit, and of a dense read of all pages.
  [[nodiscard]] std::uint64_t bursts(const RoundsPage& page, std::uint64_t tokens, bool sums) const;
  [[nodiscard]] std::uint64_t dense_bursts() const;
};

RoundsCase random_rounds_case(test::Random& random, std::size_t pages);

/// What the rounds should do.
class ExpectedRounds {
 public:
  enum class Judgement { kRead, kDense, kStop };

  /// `with` must outlive this.
  explicit ExpectedRounds(const RoundsCase& with);

  /// The next round's sample, and whether it is worth its bursts.
  Judgement draw(const std::optional<Measured>& last);

  /// Instead of the first round's: the state alone.
  void keep_state_only();

  [[nodiscard]] const std::vector<RoundsVisit>& visits() const { return visits_; }
  [[nodiscard]] const std::vector<RoundsSampled>& sampled() const { return sampled_; }

  /// Bursts of all of the last sample's visits.
  [[nodiscard]] std::uint64_t planned() const { return planned_; }
  [[nodiscard]] unsigned round() const { return round_; }

 private:
  [[nodiscard]] std::uint64_t rest(std::size_t page) const {
    return with_.pages[page].visible & ~taken_[page];
  }
  [[nodiscard]] int level(std::size_t page, unsigned token, unsigned row) const;
  void choose_thresholds(const std::optional<Measured>& last);
  RoundsVisit draw_page(std::size_t page);

  const RoundsCase& with_;
  std::vector<model::MidpointLogits> logits_;  // Of the rows in use, as the next.
  std::vector<std::int64_t> references_;
  std::vector<std::uint64_t> exact_;  // Of the pages, as the next.
  std::vector<std::uint64_t> taken_;
  std::vector<model::Threshold> thresholds_;
  std::vector<RoundsVisit> visits_;
  std::vector<RoundsSampled> sampled_;
  std::uint64_t spent_ = 0;
  std::uint64_t planned_ = 0;
  unsigned round_ = 0;
};

}  // namespace nearkv::rtl_test

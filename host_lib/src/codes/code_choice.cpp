#include "codes/code_choice.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "codes/code_form.hpp"

namespace nearkv {
namespace {

constexpr int kKeyCut = 2;
constexpr int kValueCut = 5;
constexpr int kFarError = 20000;  ///< Beyond all that terms of a token have.

std::int16_t bounded(int rest) {
  return static_cast<std::int16_t>(std::clamp(rest, -kFarError, kFarError));
}

/// Granules of errors of at least `worth`.
std::uint64_t worthwhile(const std::int16_t* errors, std::size_t count, int worth,
                         const PageKernels& kernels) {
  const auto least = static_cast<std::int16_t>(std::max<int>(worth, kNoLog16 + 1));
  const std::uint64_t all =
      count == NKV_PAGE_TOKENS ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return kernels.at_least(errors, least) & all;
}

}  // namespace

/// How a tensor's granules are read, in sixteenths of octaves of what a burst of a plane is worth.
struct GranuleChooser::Levels {
  /// The error of a granule before it has more planes than the scan read, from which on these are
  /// worth reading.
  struct Level {
    std::uint8_t planes;
    std::int16_t least;
  };
  std::array<Level, 3> levels;
  std::array<std::int16_t, NKV_KEY_CODE_PLANES + 1> falls;  ///< Of it, by planes.
  bool are_keys;
};

namespace {

/// What a token's error is from which on its row is worth reading, by log2 of a granule's tokens.
constexpr std::array<int, 6> kRowWorths = {64, 48, 32, 16, 0, -16};

}  // namespace

void GranuleChooser::begin(const CodeState* state, const RowErrors* errors, std::size_t value_dim) {
  state_ = state;
  errors_ = errors;
  kernels_ = &page_kernels();
  lengths_ = value_lengths(value_dim);
  token_errors_.reserve(NKV_PAGE_TOKENS);
}

/// Of a page's tokens with so many planes, where they have `now`: the largest of the rows that are
/// left.
void GranuleChooser::find_key_errors(std::size_t page, int worth, int now, int planes) {
  const VarianceTable<std::int16_t>& excess = variance_tables().excess;
  rows_.clear();
  key_rests_.clear();
  for (const std::uint32_t row : errors_->left()) {
    const int lowest = state_->lowest_variance(page, row);
    const int rest =
        errors_->energy(state_->row_page(page, row), row) + errors_->distance(page, row) - worth;
    rows_.push_back(error_row(*state_, page, row));
    key_rests_.push_back(
        {.before = excess.run(lowest + kKeyVariances[static_cast<std::size_t>(now)]),
         .after = excess.run(lowest + kKeyVariances[static_cast<std::size_t>(planes)]),
         .rest = bounded(rest)});
  }
  kernels_->key_errors(error_page(*state_, page), rows_.data(), key_rests_.data(), rows_.size(),
                       token_errors_.data());
}

void GranuleChooser::find_prices(std::size_t page, int worth, int planes) {
  const int residual = errors_->residual(page);
  rows_.clear();
  price_rests_.clear();
  for (const std::uint32_t row : errors_->left()) {
    const int energy = errors_->energy(state_->row_page(page, row), row);
    const int amplitude = (energy >> 1) + (residual >> 1) + coherence(planes) - worth;
    rows_.push_back(error_row(*state_, page, row));
    price_rests_.push_back({bounded(energy + residual - worth), bounded(amplitude)});
  }
  kernels_->prices(error_page(*state_, page), rows_.data(), price_rests_.data(), rows_.size(),
                   lengths_, planes, token_errors_.data());
}

void GranuleChooser::choose_of(const PageGranules& some, const Levels& levels,
                               const Granules& granules, int worth,
                               std::vector<GranuleChoice>* choices) {
  const int row_worth = kRowWorths[static_cast<std::size_t>(std::countr_zero(granules.tokens))];
  // The planes that token_errors_ are of.
  std::optional<std::pair<std::uint8_t, std::uint8_t>> found;
  for_each_bit(some.chosen, [&](std::size_t number) {
    const std::uint8_t now = some.planes[number];
    const int error = some.errors[number] - worth + levels.falls[now];
    std::uint8_t planes = now;
    for (const Levels::Level& level : levels.levels) {
      if (error >= level.least) planes = std::max(planes, level.planes);
    }
    std::uint64_t rows = 0;
    if (error - levels.falls[planes] >= row_worth) {
      const std::pair wanted{now, planes};
      if (found != wanted && levels.are_keys) find_key_errors(some.page, worth, now, planes);
      if (found != wanted && !levels.are_keys) find_prices(some.page, worth, planes);
      found = wanted;
      const std::uint64_t unread = granules.mask(number) & some.unread;
      rows =
          kernels_->at_least(token_errors_.data(), static_cast<std::int16_t>(row_worth)) & unread;
      if (4 * std::popcount(rows) >= 3 * std::popcount(unread)) {
        rows = unread;
        planes = now;
      }
    }
    if (rows == 0 && planes == now) return;
    choices->push_back(
        {static_cast<std::uint32_t>(some.page), static_cast<std::uint8_t>(number), planes, rows});
  });
}

void GranuleChooser::choose(int threshold, CodeChoice* choice) {
  static constexpr Levels kOfKeys{
      .levels = {{{2, 8}, {3, 43}, {4, 74}}}, .falls = {0, 0, 33, 61, 84}, .are_keys = true};
  static constexpr Levels kOfValues{
      .levels = {{{2, 24}, {3, 64}, {3, 64}}}, .falls = {0, 0, 50, 78, 0}, .are_keys = false};
  choice->clear();
  const Granules& of_keys = state_->key_granules();
  const Granules& of_values = state_->value_granules();
  const int key_worth = 4 * threshold + log2_sixteenths(of_keys.bursts);
  const int value_worth = 4 * threshold + log2_sixteenths(of_values.bursts);
  for (std::size_t page = 0; page < state_->pages().size(); ++page) {
    const std::uint64_t coded = state_->pages()[page].coded();
    if (coded == 0) continue;
    const std::int16_t* const keys = errors_->page_errors(page);
    const std::int16_t* const prices = keys + of_keys.count;
    const PageReads& reads = state_->reads()[page];
    choose_of({page, keys, state_->key_planes(page),
               worthwhile(keys, of_keys.count, key_worth, *kernels_), coded & ~reads.key_rows},
              kOfKeys, of_keys, key_worth, &choice->keys);
    choose_of(
        {page, prices, state_->value_planes(page),
         worthwhile(prices, of_values.count, value_worth, *kernels_), coded & ~reads.value_rows},
        kOfValues, of_values, value_worth, &choice->values);
  }
}

int code_threshold(const CodeState& state, const ErrorHistogram& keys, const ErrorHistogram& values,
                   std::optional<int> last) {
  const auto key_bursts = static_cast<std::int64_t>(state.key_granules().bursts);
  const auto value_bursts = static_cast<std::int64_t>(state.value_granules().bursts);
  const ErrorHistogram::Left of_keys = keys.left(kKeyCut);
  const ErrorHistogram::Left of_values = values.left(kValueCut);
  std::size_t at = of_keys.size() - 1;
  while (at > 0 && of_keys[at] * key_bursts + of_values[at] * value_bursts > kErrorGoal) --at;
  const int threshold = kLeastThreshold + static_cast<int>(at);
  return last ? std::min(threshold, *last - kThresholdStep) : threshold;
}

}  // namespace nearkv

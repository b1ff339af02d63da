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

/// What a token's error is from which on its row is worth reading, by log2 of a granule's tokens.
constexpr std::array<std::int16_t, 6> kRowWorths = {64, 48, 32, 16, 0, -16};

PlaneLevels levels_of(const PlaneLevels& levels, const Granules& granules) {
  PlaneLevels own = levels;
  own.row_worth = kRowWorths[static_cast<std::size_t>(std::countr_zero(granules.tokens))];
  return own;
}

constexpr PlaneLevels kOfKeys{
    .most = 4, .least = {0, 0, 8, 43, 74}, .falls = {0, 0, 33, 61, 84}, .row_worth = 0};
constexpr PlaneLevels kOfValues{
    .most = 3, .least = {0, 0, 24, 64, 0}, .falls = {0, 0, 50, 78, 0}, .row_worth = 0};

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

/// Gives the rows that are chosen; adds tokens that get more planes, and how many these are.
template <typename Tokens, typename FindErrors>
std::uint64_t GranuleChooser::choose_of(const PageGranules& some, const PlaneLevels& levels,
                                        const Granules& granules, int worth,
                                        const FindErrors& find_errors, Tokens* tokens,
                                        std::uint64_t* planes) {
  std::array<std::uint8_t, NKV_PAGE_TOKENS> next;
  ChosenGranules chosen = kernels_->choose_planes(some.errors, some.planes, granules.count, levels,
                                                  static_cast<std::int16_t>(worth), next.data());
  std::uint64_t rows = 0;
  // The planes that token_errors_ are of.
  std::optional<std::pair<std::uint8_t, std::uint8_t>> found;
  for_each_bit(chosen.rowwise, [&](std::size_t number) {
    const std::pair wanted{some.planes[number], next[number]};
    if (found != wanted) find_errors(wanted.first, wanted.second);
    found = wanted;
    const std::uint64_t unread = granules.mask(number) & some.unread;
    std::uint64_t own = kernels_->at_least(token_errors_.data(), levels.row_worth) & unread;
    if (4 * std::popcount(own) >= 3 * std::popcount(unread)) {
      own = unread;
      chosen.refined &= ~(std::uint64_t{1} << number);
    }
    rows |= own;
  });
  for_each_bit(chosen.refined, [&](std::size_t number) {
    (*tokens)[next[number]] |= granules.mask(number);
    *planes += next[number] - std::uint64_t{some.planes[number]};
  });
  return rows;
}

void GranuleChooser::choose(int threshold, CodeChoice* choice) {
  const Granules& of_keys = state_->key_granules();
  const Granules& of_values = state_->value_granules();
  const int key_worth = 4 * threshold + log2_sixteenths(of_keys.bursts);
  const int value_worth = 4 * threshold + log2_sixteenths(of_values.bursts);
  const PlaneLevels key_levels = levels_of(kOfKeys, of_keys);
  const PlaneLevels value_levels = levels_of(kOfValues, of_values);
  choice->pages.clear();
  choice->key_planes = choice->value_planes = 0;
  for (std::uint32_t page = 0; page < state_->pages().size(); ++page) {
    // Most pages hold nothing that is worth a read.
    const bool has_keys = errors_->worst_key(page) >= key_worth;
    const bool has_values = errors_->worst_value(page) >= value_worth;
    if (!has_keys && !has_values) continue;
    const std::uint64_t coded = state_->pages()[page].coded();
    const std::int16_t* const errors = errors_->page_errors(page);
    const PageReads& reads = state_->reads()[page];
    PageChoice own{.page = page};
    if (has_keys) {
      own.key_rows = choose_of(
          {page, errors, state_->key_planes(page), coded & ~reads.key_rows}, key_levels, of_keys,
          key_worth, [&](int now, int planes) { find_key_errors(page, key_worth, now, planes); },
          &own.key_planes, &choice->key_planes);
    }
    if (has_values) {
      own.value_rows = choose_of(
          {page, errors + of_keys.count, state_->value_planes(page), coded & ~reads.value_rows},
          value_levels, of_values, value_worth,
          [&](int, int planes) { find_prices(page, value_worth, planes); }, &own.value_planes,
          &choice->value_planes);
    }
    if (own.has_keys() || own.has_values()) choice->pages.push_back(own);
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

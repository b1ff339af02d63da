#include "codes/code_choice.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "codes/code_form.hpp"

namespace nearkv {
namespace {

constexpr int kKeyCut = 2;
constexpr int kValueCut = 5;
constexpr std::int32_t kCostOfRow = 4096;
constexpr std::int32_t kCostOfPlane = 256;
constexpr int kFarWorth = 20000;  ///< Beyond all that terms of a token have.

constexpr std::array<std::uint8_t, 4> kKeyLevels = {1, 2, 3, 4};
constexpr std::array<std::uint8_t, 3> kValueLevels = {0, 2, 3};

std::int16_t bounded(int rest) {
  return static_cast<std::int16_t>(std::clamp(rest, -kFarWorth, kFarWorth));
}

/// Levels from the present one on.
std::span<const std::uint8_t> levels_from(std::span<const std::uint8_t> levels, int present) {
  while (levels.front() != present) levels = levels.subspan(1);
  return levels;
}

/// Tokens of granules.
std::uint64_t tokens_of(const Granules& granules, std::uint64_t numbers) {
  std::uint64_t tokens = 0;
  for_each_bit(numbers, [&](std::size_t number) { tokens |= granules.mask(number); });
  return tokens;
}

/// Those of granules that have so many planes.
std::uint64_t with_planes(std::uint64_t granules, const std::uint8_t* planes, int count) {
  std::uint64_t some = 0;
  for_each_bit(granules, [&](std::size_t number) {
    if (planes[number] == count) some |= std::uint64_t{1} << number;
  });
  return some;
}

/// Granules of errors of at least `worth`.
std::uint64_t at_least(const std::int16_t* errors, std::size_t count, int worth) {
  std::uint64_t some = 0;
  for (std::size_t g = 0; g < count; ++g) {
    const bool is_worth = errors[g] >= worth && errors[g] != kNoLog16;
    some |= std::uint64_t{is_worth ? 1U : 0U} << g;
  }
  return some;
}

}  // namespace

void GranuleChooser::begin(const CodeState* state, const RowErrors* errors, std::size_t value_dim) {
  state_ = state;
  errors_ = errors;
  kernels_ = &page_kernels();
  tokens_.begin(state, value_dim);
  worths_.reserve(std::size_t{12} * NKV_PAGE_TOKENS);
  costs_.reserve(std::size_t{4} * NKV_PAGE_TOKENS);
}

void GranuleChooser::clear_worths(std::size_t levels) {
  std::fill_n(worths_.data(), levels * NKV_PAGE_TOKENS, kNoLog16);
}

/// What each level leaves of a page's keys that `levels` begin with the planes of.
void GranuleChooser::find_key_worths(std::size_t page, std::span<const std::uint8_t> levels,
                                     int worth) {
  clear_worths(levels.size());
  for (const std::uint32_t row : errors_->left()) {
    const std::int16_t rest = bounded(errors_->energy(state_->row_page(page, row), row) +
                                      errors_->distance(page, row) - worth);
    const std::int16_t* const effects = tokens_.key_effects(row);
    for (std::size_t level = 0; level < levels.size(); ++level) {
      kernels_->raise_keys(state_->drawn(page, row), effects,
                           tokens_.falls(row, levels[0], levels[level]), rest, worths(level));
    }
  }
}

void GranuleChooser::find_value_worths(std::size_t page, std::span<const std::uint8_t> levels,
                                       int worth) {
  clear_worths(levels.size());
  const int residual = errors_->scale(page).residual;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const TokenTerms::Lengths lengths = tokens_.lengths(levels[level]);
    std::copy_n(lengths.energies, NKV_PAGE_TOKENS, level_energies(level));
    std::copy_n(lengths.amplitudes, NKV_PAGE_TOKENS, level_amplitudes(level));
  }
  for (const std::uint32_t row : errors_->left()) {
    const int energy = errors_->energy(state_->row_page(page, row), row);
    const std::int16_t rest = bounded(energy + residual - worth);
    const std::int16_t* const effects = tokens_.value_effects(row);
    for (std::size_t level = 0; level < levels.size(); ++level) {
      const int amplitude = (energy >> 1) + (residual >> 1) + coherence(levels[level]) - worth;
      kernels_->raise_prices({.drawn = state_->drawn(page, row),
                              .effects = effects,
                              .energies = level_energies(level),
                              .amplitudes = level_amplitudes(level)},
                             rest, bounded(amplitude), worths(level));
    }
  }
}

/// Adds up what levels cost besides their planes.
void GranuleChooser::weigh_levels(std::size_t levels, std::uint64_t tokens, std::size_t granule) {
  std::fill_n(costs_.data(), levels * NKV_PAGE_TOKENS, 0);
  const auto row_cost = static_cast<std::int16_t>(kCostOfRow / static_cast<std::int32_t>(granule));
  for (std::size_t level = 0; level < levels; ++level) {
    reached_[level] = kernels_->add_costs(worths(level), tokens, row_cost, granule,
                                          costs_.data() + level * NKV_PAGE_TOKENS);
  }
}

void GranuleChooser::choose_keys(std::size_t page, const Worthwhile& some,
                                 std::vector<GranuleChoice>* choices) {
  const Granules& granules = state_->key_granules();
  const std::uint8_t* const planes = state_->key_planes(page);
  const std::uint64_t unread = state_->pages()[page].coded() & ~state_->reads()[page].key_rows;
  for (const std::uint8_t now : kKeyLevels) {
    const std::uint64_t alike = with_planes(some.granules, planes, now);
    if (alike == 0) continue;
    const auto levels = levels_from(kKeyLevels, now);
    const std::uint64_t tokens = tokens_of(granules, alike) & unread;
    find_key_worths(page, levels, some.worth);
    weigh_levels(levels.size(), tokens, granules.tokens);
    pick(page, alike, levels, granules, choices);
  }
}

void GranuleChooser::choose_values(std::size_t page, const Worthwhile& some,
                                   std::vector<GranuleChoice>* choices) {
  const Granules& granules = state_->value_granules();
  const std::uint8_t* const planes = state_->value_planes(page);
  const std::uint64_t unread = state_->pages()[page].coded() & ~state_->reads()[page].value_rows;
  // What a level leaves does not depend on the present one.
  const std::uint64_t tokens = tokens_of(granules, some.granules) & unread;
  int least = NKV_VALUE_CODE_PLANES;
  for_each_bit(some.granules,
               [&](std::size_t number) { least = std::min<int>(least, planes[number]); });
  const auto levels = levels_from(kValueLevels, least);
  find_value_worths(page, levels, some.worth);
  weigh_levels(levels.size(), tokens, granules.tokens);
  pick(page, some.granules, levels, granules, choices);
}

/// Takes the cheapest level of each granule, of equals the lowest.
void GranuleChooser::pick(std::size_t page, std::uint64_t chosen,
                          std::span<const std::uint8_t> levels, const Granules& granules,
                          std::vector<GranuleChoice>* choices) {
  const std::uint8_t* const planes =
      &granules == &state_->key_granules() ? state_->key_planes(page) : state_->value_planes(page);
  for_each_bit(chosen, [&](std::size_t number) {
    std::size_t best = levels.size();
    std::int32_t least = 0;
    for (std::size_t level = 0; level < levels.size(); ++level) {
      if (levels[level] < planes[number]) continue;
      const std::int32_t cost = costs_.data()[level * NKV_PAGE_TOKENS + number] +
                                kCostOfPlane * (levels[level] - planes[number]);
      if (best != levels.size() && cost >= least) continue;
      best = level;
      least = cost;
    }
    const std::uint64_t rows = reached_[best] & granules.mask(number);
    if (rows == 0 && levels[best] == planes[number]) return;
    choices->push_back(
        {static_cast<std::uint32_t>(page), static_cast<std::uint8_t>(number), levels[best], rows});
  });
}

void GranuleChooser::choose(int threshold, CodeChoice* choice) {
  choice->clear();
  const Granules& of_keys = state_->key_granules();
  const Granules& of_values = state_->value_granules();
  const int key_worth = 4 * threshold + log2_sixteenths(of_keys.bursts);
  const int value_worth = 4 * threshold + log2_sixteenths(of_values.bursts);
  std::array<std::int16_t, NKV_PAGE_TOKENS> keys;
  std::array<std::int16_t, NKV_PAGE_TOKENS> prices;
  for (std::size_t page = 0; page < state_->pages().size(); ++page) {
    if (state_->pages()[page].coded() == 0) continue;
    errors_->find_largest(page, keys.data(), prices.data());
    const Worthwhile some_keys{at_least(keys.data(), of_keys.count, key_worth), key_worth};
    const Worthwhile some_values{at_least(prices.data(), of_values.count, value_worth),
                                 value_worth};
    if ((some_keys.granules | some_values.granules) == 0) continue;
    tokens_.take(page);
    if (some_keys.granules != 0) choose_keys(page, some_keys, &choice->keys);
    if (some_values.granules != 0) choose_values(page, some_values, &choice->values);
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

#include "attend/attend_entries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "number.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kTokens = NKV_PAGE_TOKENS;
constexpr unsigned kLanes = 32;
constexpr unsigned kMostRests = 32;

bool has(std::uint64_t tokens, unsigned token) { return (tokens >> token & 1) != 0; }

}  // namespace

EntryPaces EntryPaces::any(test::Random& random) {
  const auto pace = [&random] { return kPaces[random() % 3]; };
  return {pace(), pace(), pace(), pace(), pace()};
}

void AttendEntries::begin(const EntryCase& with) {
  Vnkv_attend_entries_bench& module = **this;
  module.clear_i = 1;
  tick();
  module.clear_i = 0;
  module.chosen_i = with.is_chosen;
  module.bounded_i = with.is_bounded;
  module.scale_i = std::bit_cast<std::uint32_t>(with.scale);
  module.soft_cap_i = std::bit_cast<std::uint32_t>(with.soft_cap);
  module.key_exponent_i = static_cast<std::uint8_t>(with.key_exponent);
  module.value_exponent_i = static_cast<std::uint8_t>(with.value_exponent);
  module.head_dim_i = static_cast<std::uint8_t>(with.stored_dim);
  module.value_dim_i = static_cast<std::uint8_t>(with.value_dim);
  for (unsigned row = 0; row < kEntryRows; ++row) {
    module.query_exponent_i[row] = static_cast<std::uint8_t>(with.query_exponents[row]);
  }
  module.set_i = 1;
  tick();
  module.set_i = 0;
  ASSERT_TRUE(tick_until([&] { return module.set_o != 0; }, 100));
  tick();
  pages_sent_ = 0;
  busy_ = 0;
  scores_.clear();
  sample_.clear();
  rests_.clear();
  beats_.clear();
  sums_.assign(kEntryRows, {});
  for (auto& row : sums_) {
    for (model::SampledSum& sum : row) sum.acc.assign(with.value_dim, 0);
  }
  for (const EntryPage& page : with.pages) queue_page(with, page);
}

void AttendEntries::queue_page(const EntryCase& with, const EntryPage& page) {
  for (const EntryToken& token : page.scores) {
    scores_.push_back({token, token.token == page.scores.back().token});
  }
  sample_.insert(sample_.end(), page.sample.begin(), page.sample.end());
  if (page.has_rest) rests_.push_back(page.rests);
  const std::uint64_t read = with.is_chosen ? page.tokens : ~std::uint64_t{0};
  if (page.form == NKV_ROW_FORM_DELTA4 && read != 0) {
    queue_array(with.values_are_keys ? NKV_PAGE_ARRAY_K_EXPONENTS : NKV_PAGE_ARRAY_V_EXPONENTS,
                std::as_bytes(std::span(page.exponents)).data(), page.exponents.size(), 1,
                page.exponents.size());
  }
  queue_array(with.values_are_keys ? NKV_PAGE_ARRAY_K_ROWS : NKV_PAGE_ARRAY_V_ROWS,
              page.rows.data(), page.rows.size(), read, page.rows.size() / kTokens);
  if (page.has_sums()) {
    queue_array(NKV_PAGE_ARRAY_V_SUM, std::as_bytes(std::span(page.sums)).data(),
                with.value_dim * sizeof(std::int32_t), 1, with.value_dim * sizeof(std::int32_t));
  }
}

// The bursts of an array that hold a byte of the wanted rows.
void AttendEntries::queue_array(std::uint8_t array, const std::byte* bytes, std::size_t size,
                                std::uint64_t tokens, std::size_t row_bytes) {
  std::vector<std::size_t> bursts;
  for (unsigned token = 0; token < kTokens; ++token) {
    if (!has(tokens, token)) continue;
    for (std::size_t burst = token * row_bytes / NKV_BURST_BYTES;
         burst <= ((token + 1) * row_bytes - 1) / NKV_BURST_BYTES; ++burst) {
      if (bursts.empty() || bursts.back() != burst) bursts.push_back(burst);
    }
  }
  for (const std::size_t burst : bursts) {
    Beat beat{array, burst == bursts.front(), burst == bursts.back(), {}};
    const std::size_t at = burst * NKV_BURST_BYTES;
    std::memcpy(beat.data.data(), bytes + at, std::min<std::size_t>(NKV_BURST_BYTES, size - at));
    beats_.push_back(beat);
  }
}

void AttendEntries::show(const EntryCase& with) {
  Vnkv_attend_entries_bench& module = **this;
  if (module.page_valid_i) {
    const EntryPage& page = with.pages[pages_sent_];
    module.page_tokens_i = page.tokens;
    module.page_nonfinite_i = page.nonfinite;
    module.page_sampled_i = page.sampled;
    module.page_rest_i = page.has_rest;
    module.page_sums_i = page.has_sums();
    module.page_v_exponent_i = static_cast<std::uint8_t>(page.value_exponent);
    module.page_k_form_i = page.form;
    module.page_v_form_i = with.values_are_keys ? std::uint8_t{NKV_ROW_FORM_NONE} : page.form;
  }
  constexpr std::uint64_t kScoreMask = (std::uint64_t{1} << 60) - 1;
  constexpr std::uint64_t kLogitMask = (std::uint64_t{1} << 48) - 1;
  for (unsigned row = 0; row < kEntryRows; ++row) {
    if (module.score_valid_i) {
      module.score_i[row] = static_cast<std::uint64_t>(scores_.front().of.scores[row]) & kScoreMask;
    }
    if (module.sampled_valid_i) {
      module.sampled_logit_i[row] =
          static_cast<std::uint64_t>(sample_.front().approximate[row]) & kLogitMask;
    }
    if (!rests_.empty()) {
      const auto& rest = rests_.front()[row];
      module.rest_whole_i[row] =
          static_cast<std::uint32_t>(rest ? rest->whole : model::kNoReference);
      module.rest_weight_i[row] = rest ? static_cast<std::uint32_t>(rest->weight) : 0;
    }
  }
  if (module.score_valid_i) {
    module.score_token_i = static_cast<std::uint8_t>(scores_.front().of.token);
    module.score_last_i = scores_.front().last;
  }
  if (module.sampled_valid_i) {
    module.sampled_halvings_i = static_cast<std::uint8_t>(sample_.front().halvings);
    module.sampled_group_i = static_cast<std::uint8_t>(sample_.front().group);
  }
  if (module.beat_valid_i) {
    const Beat& beat = beats_.front();
    module.beat_tag_array_i = beat.array;
    module.beat_first_i = beat.first;
    module.beat_last_i = beat.last;
    std::memcpy(module.beat_data_i.data(), beat.data.data(), NKV_BURST_BYTES);
  }
}

void AttendEntries::cycle(const EntryCase& with, test::Random& random, const EntryPaces& paces) {
  Vnkv_attend_entries_bench& module = **this;
  module.page_valid_i = pages_sent_ < with.pages.size() && is_willing(random, paces.pages);
  module.score_valid_i = !scores_.empty() && is_willing(random, paces.scores);
  module.sampled_valid_i = !sample_.empty() && is_willing(random, paces.sample);
  module.beat_valid_i = !beats_.empty() && is_willing(random, paces.beats);
  module.rests_i = static_cast<std::uint8_t>(std::min<std::size_t>(rests_.size(), kMostRests));
  module.grant_i = is_willing(random, paces.words);
  module.sums_ready_i = busy_ == 0;
  show(with);
  settle();
  if (module.word_valid_o) take_word(with.value_dim);
  if (busy_ != 0) {
    --busy_;
  } else if (module.raise_valid_o) {
    take_raise();
    busy_ = 1 + static_cast<unsigned>(random() % 12);
  }
  if (module.page_valid_i && module.page_ready_o) ++pages_sent_;
  if (module.score_valid_i && module.score_ready_o) scores_.pop_front();
  if (module.sampled_valid_i && module.sampled_ready_o) sample_.pop_front();
  if (module.beat_valid_i && module.beat_ready_o) beats_.pop_front();
  if (module.rest_ready_o) {
    ASSERT_FALSE(rests_.empty());
    rests_.pop_front();
  }
  tick();
}

void AttendEntries::take_word(unsigned value_dim) {
  Vnkv_attend_entries_bench& module = **this;
  ASSERT_TRUE(module.sums_ready_i) << "a word during a raise";
  for (unsigned row = 0; row < kEntryRows; ++row) {
    model::SampledSum& sum = sums_[row][module.word_sum_o];
    if (module.word_index_o == 0) {
      const auto units = static_cast<std::int64_t>(module.units_o[row]);
      sum.z += module.word_subtract_o ? -units : units;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned channel = module.word_index_o * kLanes + lane;
      const std::int64_t value = static_cast<std::int32_t>(module.word_o[lane] << 5) >> 5;
      if (channel >= value_dim) {
        ASSERT_EQ(value, 0);
        continue;
      }
      sum.acc[channel] +=
          model::floor_shift(std::int64_t{module.weight_o[row]} * value, module.shift_o[row]);
    }
  }
}

void AttendEntries::take_raise() {
  for (unsigned row = 0; row < kEntryRows; ++row) {
    const int distance = (*this)->raise_o[row];
    for (model::SampledSum& sum : sums_[row]) {
      sum.z = model::floor_shift(sum.z, distance);
      for (std::int64_t& channel : sum.acc) channel = model::floor_shift(channel, distance);
    }
  }
}

bool AttendEntries::is_done() {
  return scores_.empty() && sample_.empty() && rests_.empty() && beats_.empty() && (*this)->idle_o;
}

std::uint64_t AttendEntries::run(const EntryCase& with, test::Random& random,
                                 const EntryPaces& paces) {
  begin(with);
  const std::uint64_t start = cycles();
  while (pages_sent_ < with.pages.size() || !is_done()) {
    cycle(with, random, paces);
    if (cycles() - start > 20000 * with.pages.size() || testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << "hangs after " << pages_sent_ << " pages, " << scores_.size() << " scores, "
                    << beats_.size() << " bursts to come";
      return 0;
    }
  }
  return cycles() - start;
}

void AttendEntries::abandon(const EntryCase& with, test::Random& random, unsigned cycles) {
  begin(with);
  for (unsigned i = 0; i < cycles; ++i) cycle(with, random, EntryPaces::all(8));
  (*this)->page_valid_i = (*this)->score_valid_i = (*this)->sampled_valid_i = 0;
  (*this)->beat_valid_i = (*this)->rests_i = (*this)->grant_i = 0;
  // A clear comes when nothing goes on any more.
  ticks(400);
}

}  // namespace nearkv::rtl_test

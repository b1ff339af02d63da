#include "attend/attend_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "number.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kLanes = 32;

}  // namespace

void RowSums::raise(int distance) {
  z = model::floor_shift(z, distance);
  for (std::int64_t& channel : acc) channel = model::floor_shift(channel, distance);
}

void RowSums::add(const model::Weight& weight, const std::vector<std::int32_t>& value) {
  if (weight.is_zero()) return;
  z += weight.units();
  for (std::size_t c = 0; c < acc.size(); ++c) {
    acc[c] += model::floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
  }
}

SumsPaces SumsPaces::any(test::Random& random) {
  const auto pace = [&random] { return kPaces[random() % 3]; };
  return {pace(), pace(), pace(), pace()};
}

void AttendSums::begin(const SumsCase& with) {
  Vnkv_attend_sums_bench& module = **this;
  module.clear_i = 1;
  tick();
  module.clear_i = 0;
  module.scale_i = std::bit_cast<std::uint32_t>(with.scale);
  module.soft_cap_i = std::bit_cast<std::uint32_t>(with.soft_cap);
  module.key_exponent_i = static_cast<std::uint8_t>(with.key_exponent);
  module.value_exponent_i = static_cast<std::uint8_t>(with.value_exponent);
  module.head_dim_i = static_cast<std::uint8_t>(with.stored_dim);
  module.value_dim_i = static_cast<std::uint8_t>(with.value_dim);
  for (unsigned row = 0; row < kSumRows; ++row) {
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
  beats_.clear();
  sums_.assign(kSumRows, RowSums(with.value_dim));
  for (const SummedPage& page : with.pages) queue_page(with, page);
}

void AttendSums::queue_page(const SumsCase& with, const SummedPage& page) {
  for (const ScoredToken& token : page.scores) {
    scores_.push_back({token, token.token == page.scores.back().token});
  }
  if (page.form == NKV_ROW_FORM_DELTA4) {
    queue_array(with.values_are_keys ? NKV_PAGE_ARRAY_K_EXPONENTS : NKV_PAGE_ARRAY_V_EXPONENTS,
                std::as_bytes(std::span(page.exponents)).data(), page.exponents.size());
  }
  queue_array(with.values_are_keys ? NKV_PAGE_ARRAY_K_ROWS : NKV_PAGE_ARRAY_V_ROWS,
              page.rows.data(), page.rows.size());
}

void AttendSums::queue_array(std::uint8_t array, const std::byte* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size; at += NKV_BURST_BYTES) {
    Beat beat{array, at == 0, at + NKV_BURST_BYTES >= size, {}};
    std::memcpy(beat.data.data(), bytes + at, std::min<std::size_t>(NKV_BURST_BYTES, size - at));
    beats_.push_back(beat);
  }
}

void AttendSums::show(const SumsCase& with) {
  Vnkv_attend_sums_bench& module = **this;
  if (module.page_valid_i) {
    const SummedPage& page = with.pages[pages_sent_];
    module.page_tokens_i = page.tokens;
    module.page_nonfinite_i = page.nonfinite;
    module.page_k_form_i = page.form;
    module.page_v_form_i = with.values_are_keys ? std::uint8_t{NKV_ROW_FORM_NONE} : page.form;
  }
  if (module.score_valid_i) {
    constexpr std::uint64_t kScoreMask = (std::uint64_t{1} << 60) - 1;
    const Score& score = scores_.front();
    for (unsigned row = 0; row < kSumRows; ++row) {
      module.score_i[row] = static_cast<std::uint64_t>(score.of.scores[row]) & kScoreMask;
    }
    module.score_token_i = static_cast<std::uint8_t>(score.of.token);
    module.score_last_i = score.last;
  }
  if (module.beat_valid_i) {
    const Beat& beat = beats_.front();
    module.beat_tag_array_i = beat.array;
    module.beat_first_i = beat.first;
    module.beat_last_i = beat.last;
    std::memcpy(module.beat_data_i.data(), beat.data.data(), NKV_BURST_BYTES);
  }
}

void AttendSums::cycle(const SumsCase& with, test::Random& random, const SumsPaces& paces) {
  Vnkv_attend_sums_bench& module = **this;
  module.page_valid_i = pages_sent_ < with.pages.size() && is_willing(random, paces.pages);
  module.score_valid_i = !scores_.empty() && is_willing(random, paces.scores);
  module.beat_valid_i = !beats_.empty() && is_willing(random, paces.beats);
  module.grant_i = is_willing(random, paces.words);
  module.sums_ready_i = busy_ == 0;
  show(with);
  settle();
  if (module.word_valid_o) take_word(with.value_dim);
  if (busy_ != 0) {
    --busy_;
  } else if (module.raise_valid_o) {
    for (unsigned row = 0; row < kSumRows; ++row) sums_[row].raise(module.raise_o[row]);
    busy_ = 1 + static_cast<unsigned>(random() % 12);
  }
  if (module.page_valid_i && module.page_ready_o) ++pages_sent_;
  if (module.score_valid_i && module.score_ready_o) scores_.pop_front();
  if (module.beat_valid_i && module.beat_ready_o) beats_.pop_front();
  tick();
}

void AttendSums::take_word(unsigned value_dim) {
  Vnkv_attend_sums_bench& module = **this;
  ASSERT_TRUE(module.sums_ready_i) << "a word during a raise";
  for (unsigned row = 0; row < kSumRows; ++row) {
    RowSums& sums = sums_[row];
    if (module.word_index_o == 0) sums.z += static_cast<std::int64_t>(module.units_o[row]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned channel = module.word_index_o * kLanes + lane;
      const std::int64_t value = static_cast<std::int32_t>(module.word_o[lane] << 5) >> 5;
      if (channel >= value_dim) {
        ASSERT_EQ(value, 0);
        continue;
      }
      sums.acc[channel] +=
          model::floor_shift(std::int64_t{module.weight_o[row]} * value, module.shift_o[row]);
    }
  }
}

bool AttendSums::is_done() { return scores_.empty() && beats_.empty() && (*this)->idle_o; }

std::uint64_t AttendSums::run(const SumsCase& with, test::Random& random, const SumsPaces& paces) {
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

void AttendSums::abandon(const SumsCase& with, test::Random& random, unsigned cycles) {
  begin(with);
  for (unsigned i = 0; i < cycles; ++i) cycle(with, random, SumsPaces::all(8));
  (*this)->page_valid_i = (*this)->score_valid_i = (*this)->beat_valid_i = (*this)->grant_i = 0;
  // A clear comes when nothing goes on any more.
  ticks(400);
}

}  // namespace nearkv::rtl_test

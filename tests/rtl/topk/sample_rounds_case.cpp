#include "sample_rounds_case.hpp"

#include <algorithm>
#include <cstdlib>

#include "nkv_abi.h"
#include "traffic.hpp"

namespace nearkv::rtl_test {
namespace {

std::uint64_t exponent_bursts(std::uint8_t form, std::uint64_t dim) {
  return form == NKV_ROW_FORM_DELTA4 ? (dim + 63) / 64 : 0;
}

bool is_saturated(const RoundsPage& page, unsigned token, unsigned rows) {
  for (unsigned row = 0; row < rows; ++row) {
    if (std::abs(page.midpoints[row][token]) == kLimit) return true;
  }
  return false;
}

Form random_form(test::Random& random) {
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3};
  const std::uint8_t dtype = kTypes[random() % 3];
  const auto form = [&] {
    return static_cast<std::uint8_t>(
        dtype == NKV_DTYPE_BF16 && random() % 2 == 0 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW);
  };
  return {.k_form = form(), .v_form = form(), .dtype = dtype};
}

}  // namespace

std::uint64_t RoundsCase::exact(const RoundsPage& page) const {
  if (page.visible != kAllTokens) return page.visible;
  std::uint64_t mask = 0;
  for (unsigned token = 0; token < kTokens; ++token) {
    if (is_saturated(page, token, rows)) mask |= std::uint64_t{1} << token;
  }
  return mask;
}

std::pair<std::int32_t, std::int32_t> RoundsCase::range(unsigned row) const {
  std::pair<std::int32_t, std::int32_t> range{-kLimit, kLimit};
  for (const RoundsPage& page : pages) {
    for (unsigned token = 0; token < kTokens; ++token) {
      const std::int32_t midpoint = page.midpoints[row][token];
      if ((page.visible >> token & 1) == 0 || std::abs(midpoint) == kLimit) continue;
      range.first = std::max(range.first, midpoint);
      range.second = std::min(range.second, midpoint);
    }
  }
  return range;
}

std::uint64_t RoundsCase::bursts(const RoundsPage& page, std::uint64_t tokens, bool sums) const {
  const std::uint64_t sum_bursts = sums ? (value_dim * 4 + 63) / 64 : 0;
  if (tokens == 0) return sum_bursts;
  const Form& form = page.form;
  return sum_bursts + exponent_bursts(form.k_form, head_dim) +
         exponent_bursts(form.v_form, value_dim) +
         model::row_bursts(tokens, nkv_row_bytes(form.k_form, form.dtype, head_dim)) +
         model::row_bursts(tokens, nkv_row_bytes(form.v_form, form.dtype, value_dim));
}

std::uint64_t RoundsCase::dense_bursts() const {
  std::uint64_t bursts = 0;
  for (const RoundsPage& page : pages) bursts += 2 + this->bursts(page, kAllTokens, false);
  return bursts;
}

RoundsCase random_rounds_case(test::Random& random, std::size_t pages) {
  RoundsCase made;
  made.scale = (random() % 4 == 0 ? -1.0F : 1.0F) * 0.01F * static_cast<float>(1 + random() % 40);
  made.key_exponent = 120 + static_cast<int>(random() % 10);
  made.rows = 1 + static_cast<unsigned>(random() % kRows);
  for (unsigned row = 0; row < kRows; ++row) {
    made.query_exponents[row] = 116 + static_cast<int>(random() % 12);
    made.references[row] = static_cast<std::int64_t>(random() % (1 << 22)) - (1 << 21);
    made.shifts[row] = static_cast<int>(random() % 14);
  }
  made.head_dim = static_cast<std::uint16_t>(16 * (1 + random() % 8));
  made.value_dim = static_cast<std::uint16_t>(16 * (1 + random() % 8));
  made.byte_cap = random() % 3 == 0 ? static_cast<std::uint8_t>(1 + random() % 255) : 0;
  made.seed = static_cast<std::uint32_t>(random());
  made.log_error = -static_cast<std::int64_t>(random() % (6 * kOctave));
  const bool one_form = random() % 2 == 0;
  const bool no_values = random() % 6 == 0;
  const Form form = random_form(random);
  const std::uint64_t most = std::uint64_t{1} << (10 + random() % 6);
  for (std::size_t i = 0; i < pages; ++i) {
    RoundsPage page;
    page.form = one_form ? form : random_form(random);
    if (no_values) page.form.v_form = NKV_ROW_FORM_NONE;
    if (random() % 12 == 0) page.visible = random();
    // Bits 4 to 7 are hidden by keys that are not finite, others by position.
    if (page.visible == 0) page.visible = 1;
    for (unsigned token = 0; token < kTokens; ++token) {
      for (auto& row : page.midpoints) {
        const auto value =
            static_cast<std::int64_t>(random() % most) - static_cast<std::int64_t>(most / 2);
        row[token] = static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -kLimit, kLimit));
        if (random() % 4000 == 0) row[token] = random() % 2 == 0 ? kLimit : -kLimit;
        if ((page.visible >> token & 1) == 0) row[token] = -32768;
      }
    }
    made.pages.push_back(page);
  }
  made.scan_bursts = static_cast<std::uint32_t>(random() % (made.dense_bursts() / 4 + 1));
  return made;
}

ExpectedRounds::ExpectedRounds(const RoundsCase& with) : with_(with) {
  for (unsigned row = 0; row < with.rows; ++row) {
    logits_.emplace_back(model::LogitScale(with.scale, 0.0F, with.key_exponent),
                         with.query_exponents[row], with.references[row], with.shifts[row]);
    const auto [highest, lowest] = with.range(row);
    references_.push_back(std::max(model::integer_part(logits_.back().at(highest)),
                                   model::integer_part(logits_.back().at(lowest))));
  }
  for (const RoundsPage& page : with.pages) exact_.push_back(with.exact(page));
  taken_ = exact_;
  spent_ = with.scan_bursts;
}

ExpectedRounds::Judgement ExpectedRounds::draw(const std::optional<Measured>& last) {
  ++round_;
  choose_thresholds(last);
  sampled_.clear();
  visits_.clear();
  std::uint64_t planned = 0;
  for (std::size_t page = 0; page < with_.pages.size(); ++page) {
    const RoundsVisit visit = draw_page(page);
    planned += with_.bursts(with_.pages[page], visit.tokens, visit.sums);
    if (visit.tokens != 0 || visit.sums) visits_.push_back(visit);
  }
  planned_ = planned;
  const std::uint64_t total = spent_ + planned;
  const std::uint64_t dense = with_.dense_bursts();
  const bool too_much =
      with_.byte_cap != 0 ? total * 256 > dense * with_.byte_cap : total * 20 > dense * 17;
  if (too_much) return with_.byte_cap != 0 ? Judgement::kStop : Judgement::kDense;
  spent_ = total;
  for (const RoundsVisit& visit : visits_) taken_[visit.page] |= visit.tokens;
  return Judgement::kRead;
}

void ExpectedRounds::keep_state_only() {
  std::erase_if(visits_, [&](RoundsVisit& visit) {
    visit.tokens &= ~visit.sampled;
    visit.sampled = 0;
    return visit.tokens == 0 && !visit.sums;
  });
  sampled_.clear();
}

int ExpectedRounds::level(std::size_t page, unsigned token, unsigned row) const {
  const std::int64_t logit = logits_[row].at(with_.pages[page].midpoints[row][token]);
  return model::Levels::of(logit, references_[row]);
}

void ExpectedRounds::choose_thresholds(const std::optional<Measured>& last) {
  std::vector<model::Levels> levels(with_.rows);
  for (std::size_t page = 0; page < with_.pages.size(); ++page) {
    for (unsigned token = 0; token < kTokens; ++token) {
      if ((rest(page) >> token & 1) == 0) continue;
      for (unsigned row = 0; row < with_.rows; ++row) {
        levels[row].count(level(page, token, row));
      }
    }
  }
  thresholds_.resize(with_.rows);
  for (unsigned row = 0; row < with_.rows; ++row) {
    if (!last) {
      thresholds_[row] = levels[row].first();
      continue;
    }
    std::int64_t step = 6 * kOctave;
    if (const auto& bound = last->log_bounds[row]) {
      step = *bound <= with_.log_error ? 0 : 2 * (*bound - with_.log_error) + kOctave / 4;
    }
    thresholds_[row] = levels[row].within(thresholds_[row].log_variance - step);
  }
}

RoundsVisit ExpectedRounds::draw_page(std::size_t page) {
  RoundsVisit visit{.page = page, .tokens = 0, .sums = false, .sampled = 0};
  const std::uint64_t rest = this->rest(page);
  for (unsigned token = 0; token < kTokens; ++token) {
    if ((rest >> token & 1) == 0) continue;
    RoundsSampled drawn{.halvings = 16};
    for (unsigned row = 0; row < with_.rows; ++row) {
      drawn.logits[row] = logits_[row].at(with_.pages[page].midpoints[row][token]);
      drawn.halvings =
          std::min(drawn.halvings, model::halvings_of(level(page, token, row), thresholds_[row]));
    }
    const std::uint32_t hash =
        model::sample_hash(with_.seed, round_, static_cast<std::uint32_t>(page * kTokens + token));
    if (!model::is_drawn(hash, drawn.halvings)) continue;
    drawn.group = model::group_of(hash);
    sampled_.push_back(drawn);
    visit.sampled |= std::uint64_t{1} << token;
  }
  visit.tokens = visit.sampled | (round_ == 1 ? exact_[page] : 0);
  visit.sums = round_ == 1 ? rest != 0 : visit.sampled != 0;
  return visit;
}

}  // namespace nearkv::rtl_test

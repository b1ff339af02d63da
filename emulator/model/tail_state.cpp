#include "tail_state.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "midpoint_logits.hpp"
#include "number.hpp"
#include "rows.hpp"

namespace nearkv::model {

namespace {

constexpr TokenMask kAllTokens = ~TokenMask{0};

}  // namespace

Verdict TailState::scan(uint32_t top_k) {
  const Verdict opened = open_attend_pages(
      *task_, false, {NKV_PAGE_ARRAY_K_DIGEST, NKV_PAGE_ARRAY_K_PLANE0, NKV_PAGE_ARRAY_K_PLANE1},
      &pages_);
  if (!opened.ok()) return opened;
  traffic_.stream += scan_bursts(pages_, kPlanes);
  hides_nonfinite_ = pages_.hides_nonfinite();
  midpoints_.emplace(pages_, task_->input.query, task_->input.exponents.key, kPlanes);
  take_midpoint_logits();
  take_value_sums();
  exact_ = first_exact_set(top_k);
  return {};
}

uint64_t TailState::exact_set_bursts(const TokenSet& sample) const {
  return page_sum_bursts(pages_, rests()) + row_bursts_of(exact_with(sample));
}

Verdict TailState::read_exact_set(const TokenSet& sample) {
  const TokenSet tokens = exact_with(sample);
  const Verdict relied = rely_on_pages(tokens);
  if (!relied.ok()) return relied;
  traffic_.stream += page_sum_bursts(pages_, rests());
  count_rows(tokens);
  take_tokens(exact_);
  return {};
}

TokenSet TailState::rests() const {
  TokenSet tokens = pages_.none();
  for (size_t page = 0; page < pages_.size(); ++page) tokens[page] = rest(page);
  return tokens;
}

TokenSet TailState::exact_with(const TokenSet& sample) const {
  TokenSet tokens = exact_;
  for (size_t page = 0; page < pages_.size(); ++page) tokens[page] |= sample[page];
  return tokens;
}

Verdict TailState::rely_on_pages(const TokenSet& tokens) {
  for (size_t page = 0; page < pages_.size(); ++page) {
    std::vector<nkv_page_array> arrays;
    if (tokens[page] != 0) arrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_V_EXPONENTS};
    if (rest(page) != 0) arrays.push_back(NKV_PAGE_ARRAY_V_SUM);
    if (arrays.empty()) continue;
    const Verdict verdict = pages_.rely_on(task_->domain, task_->input.entries, page, arrays);
    if (!verdict.ok()) return verdict;
  }
  return {};
}

TokenSet TailState::first_exact_set(uint32_t top_k) const {
  TokenSet tokens = top_k > 0 ? midpoints_->best(top_k) : pages_.none();
  for (size_t page = 0; page < pages_.size(); ++page) {
    const TokenMask visible = pages_[page].visible;
    if (visible != kAllTokens) tokens[page] = visible;
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (size_t row = 0; row < rows(); ++row) {
        if (has_token(visible, token) && midpoints_->is_saturated(row, page, token)) {
          tokens[page] |= token_bit(token);
        }
      }
    }
  }
  return tokens;
}

void TailState::take_midpoint_logits() {
  logits_.assign(rows() * pages_.size() * NKV_PAGE_TOKENS, 0);
  midpoint_references_.assign(rows(), kNoReference);
  for (size_t row = 0; row < rows(); ++row) {
    const MidpointLogits logits(task_->scale, task_->input.query.exponent(row),
                                midpoints_->reference(row), midpoints_->shift(row));
    for (size_t page = 0; page < pages_.size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        // A saturated token is read exactly: its midpoint says nothing.
        if (!has_token(pages_[page].visible, token) || midpoints_->is_saturated(row, page, token)) {
          continue;
        }
        const int64_t logit = logits.at(midpoints_->at(row, page, token));
        logits_[slot(row, page, token)] = logit;
        midpoint_references_[row] = std::max(midpoint_references_[row], integer_part(logit));
      }
    }
  }
}

std::vector<int64_t> TailState::value_sum(size_t page) const {
  const Page& summed = pages_[page].page;
  const auto stored = summed.array(NKV_PAGE_ARRAY_V_SUM);
  const int shift = task_->input.exponents.value - summed.header().v_exponent;
  std::vector<int64_t> sums;
  for (size_t channel = 0; channel < task_->command.value_dim; ++channel) {
    int32_t sum;
    std::memcpy(&sum, stored.subspan(channel * sizeof(sum)).data(), sizeof(sum));
    sums.push_back(floor_shift(int64_t{sum}, shift));
  }
  return sums;
}

void TailState::take_value_sums() {
  for (size_t page = 0; page < pages_.size(); ++page) rest_value_sums_.push_back(value_sum(page));
}

uint64_t TailState::sample_bursts(const TokenSet& tokens) const {
  return row_bursts_of(tokens) + page_sum_bursts(pages_, tokens);
}

Verdict TailState::read_sample(const TokenSet& tokens) {
  constexpr std::array kArrays{NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_V_EXPONENTS,
                               NKV_PAGE_ARRAY_V_SUM};
  const Verdict verdict = pages_.rely_on(task_->domain, task_->input.entries, tokens, kArrays);
  if (!verdict.ok()) return verdict;
  traffic_.value += page_sum_bursts(pages_, tokens);
  count_rows(tokens);
  return {};
}

uint64_t TailState::row_bursts_of(const TokenSet& tokens) const {
  return key_row_bursts(pages_, tokens) + value_row_bursts(pages_, tokens);
}

void TailState::count_rows(const TokenSet& tokens) {
  traffic_.exact += key_row_bursts(pages_, tokens);
  traffic_.value += value_row_bursts(pages_, tokens);
}

void TailState::take_tokens(const TokenSet& tokens) {
  for (size_t page = 0; page < pages_.size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (has_token(tokens[page], token)) take_token(page, token);
    }
  }
}

void TailState::take_token(size_t page, uint32_t token) {
  const auto key = key_row(pages_[page].page, token, task_->input.exponents.key);
  const auto value = value_row(pages_[page].page, token, task_->input.exponents.value);
  exact_[page] |= token_bit(token);
  for (size_t row = 0; row < rows(); ++row) {
    logits_[slot(row, page, token)] = exact_logit(row, key);
  }
  for (size_t c = 0; c < value.size(); ++c) rest_value_sums_[page][c] -= value[c];
}

int64_t TailState::exact_logit(size_t row, std::span<const int32_t> key) const {
  const Query& query = task_->input.query;
  return task_->scale.logit(exact_score(query.row(row), key), query.exponent(row));
}

}  // namespace nearkv::model

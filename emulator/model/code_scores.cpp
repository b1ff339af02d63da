#include "code_scores.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace nearkv::model {

namespace {

constexpr int64_t kFractionMask = (int64_t{1} << kCodeLogitBits) - 1;
constexpr int64_t kMostAbove = (int64_t{1} << 15) - 1;

}  // namespace

CodeScores::CodeScores(const CodedList& list, CodeQuery query)
    : list_(&list),
      query_(std::move(query)),
      above_(query_.rows() * list.size() * NKV_PAGE_TOKENS),
      exact_(above_.size()),
      variances_(above_.size()),
      known_(list.pages().none()) {
  for (size_t row = 0; row < rows(); ++row) {
    for (size_t page = 0; page < list.size(); ++page) {
      const int64_t mean = query_.mean_logit(row, list.keys(page));
      octaves_.push_back(mean >> kCodeLogitBits);
      fractions_.push_back(mean & kFractionMask);
    }
  }
  for (size_t page = 0; page < list.size(); ++page) refine(page, list.pages()[page].visible, 1);
}

void CodeScores::refine(size_t page, TokenMask tokens, int planes) {
  const StoredCodes keys = list_->keys(page);
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(tokens & ~known_[page], token)) continue;
    const std::vector<int64_t> values = keys.values(token, planes);
    for (size_t row = 0; row < rows(); ++row) {
      const int64_t residual = query_.residual_logit(row, keys, token, values, planes);
      is_loud_ |= std::abs(residual) >= CodeQuery::kLoud;
      above_[slot(row, page, token)] = residual + fractions_[row * list_->size() + page];
      variances_[slot(row, page, token)] = query_.variance(row, keys, token, planes);
    }
  }
}

void CodeScores::set_exact(size_t row, size_t page, uint32_t token, int64_t logit) {
  known_[page] |= token_bit(token);
  exact_[slot(row, page, token)] = logit;
  variances_[slot(row, page, token)] = std::nullopt;
  above_[slot(row, page, token)] = std::clamp(
      (logit >> kExactToCode) - (octave(row, page) << kCodeLogitBits), -kMostAbove, kMostAbove);
}

}  // namespace nearkv::model

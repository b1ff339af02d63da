#include "code_scores.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "softmax.hpp"

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
      const CodeLogit mean =
          list.is_coded(page) ? query_.mean_logit(row, list.keys(page)) : CodeLogit{};
      is_loud_ |= mean.is_loud && list.pages()[page].visible != 0;
      octaves_.push_back(mean.value >> kCodeLogitBits);
      fractions_.push_back(mean.value & kFractionMask);
    }
  }
  for (size_t page = 0; page < list.size(); ++page) refine(page, list.coded(page), 1);
}

void CodeScores::refine(size_t page, TokenMask tokens, int planes) {
  const StoredCodes keys = list_->keys(page);
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(tokens & ~known_[page], token)) continue;
    const std::vector<int64_t> values = keys.values(token, planes);
    for (size_t row = 0; row < rows(); ++row) {
      const CodeLogit residual = query_.residual_logit(row, keys, token, values, planes);
      is_loud_ |= residual.is_loud;
      above_[slot(row, page, token)] = residual.value + fractions_[row * list_->size() + page];
      variances_[slot(row, page, token)] = query_.variance(row, keys, token, planes);
    }
  }
}

void CodeScores::set_exact(size_t row, size_t page, TokenMask tokens, const TokenLogits& logits) {
  known_[page] |= tokens;
  int64_t& octave = octaves_[row * list_->size() + page];
  if (!list_->is_coded(page)) {
    octave = kNoReference;
    for_each_token(tokens,
                   [&](uint32_t token) { octave = std::max(octave, integer_part(logits[token])); });
  }
  for_each_token(tokens, [&](uint32_t token) {
    const size_t at = slot(row, page, token);
    exact_[at] = logits[token];
    variances_[at] = std::nullopt;
    const int64_t above = (logits[token] >> kExactToCode) - octave * (1 << kCodeLogitBits);
    is_loud_ |= list_->is_coded(page) && std::abs(above) > kMostAbove;
    above_[at] = std::clamp(above, -kMostAbove, kMostAbove);
  });
}

}  // namespace nearkv::model

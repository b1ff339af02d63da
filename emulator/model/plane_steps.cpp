#include "plane_steps.hpp"

#include "rows.hpp"

namespace nearkv::model {

void ModelPlaneSteps::scan(const ListedPages& pages, int planes) {
  pages_ = &pages;
  midpoints_.emplace(pages, query_, key_exponent_, planes);
}

TokenSet ModelPlaneSteps::best(uint64_t count) { return midpoints_->best(count); }

std::vector<int64_t> ModelPlaneSteps::scores(const TokenSet& tokens) {
  std::vector<int64_t> scores;
  for (size_t page = 0; page < pages_->size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(tokens[page], token)) continue;
      const auto key = key_row((*pages_)[page].page, token, key_exponent_);
      for (size_t row = 0; row < query_.rows(); ++row) {
        scores.push_back(exact_score(query_.row(row), key));
      }
    }
  }
  return scores;
}

TokenSet ModelPlaneSteps::alive(const TokenSet& tokens, int planes, uint32_t sixteenths,
                                std::span<const int64_t> taus) {
  TokenSet alive = tokens;
  for (size_t page = 0; page < pages_->size(); ++page) {
    if (alive[page] == 0) continue;
    TokenMask kept = 0;
    for (size_t row = 0; row < query_.rows(); ++row) {
      const int64_t radius = midpoints_->stored_radius(row, page, planes, sixteenths);
      const int32_t tau = midpoints_->stored_tau(row, taus[row]);
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        const int32_t midpoint = midpoints_->at(row, page, token);
        if (midpoint == kMidpointLimit || midpoint + radius >= tau) kept |= token_bit(token);
      }
    }
    alive[page] &= kept;
  }
  return alive;
}

void ModelPlaneSteps::sharpen(const TokenSet& tokens, int plane) {
  for (size_t page = 0; page < pages_->size(); ++page) {
    if (tokens[page] == 0) continue;
    const auto weights = midpoints_->weights_of(page);
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (has_token(tokens[page], token)) midpoints_->sharpen(page, token, plane, weights);
    }
  }
}

}  // namespace nearkv::model

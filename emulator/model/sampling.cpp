#include "sampling.hpp"

#include <algorithm>
#include <cmath>

namespace nearkv::model {

namespace {

constexpr uint64_t kLeastSample = 64;
constexpr double kPlanningMargin = 0.95;

uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

}  // namespace

uint32_t sample_hash(uint32_t seed, uint32_t round, uint32_t token) {
  return static_cast<uint32_t>(mix(mix(seed + (uint64_t{round} << 32)) + token));
}

TokenSet token_set(std::span<const SampledToken> sample, size_t pages) {
  TokenSet tokens(pages, 0);
  for (const SampledToken& sampled : sample) tokens[sampled.page] |= token_bit(sampled.token);
  return tokens;
}

ContributionBins::ContributionBins(const Estimate& estimate, std::span<const double> targets)
    : estimate_(&estimate),
      targets_(targets.begin(), targets.end()),
      bins_(kBins, Bin{.contributions2 = std::vector<double>(estimate.rows(), 0.0)}),
      bin_of_token_(estimate.state().pages().size() * NKV_PAGE_TOKENS, 0) {
  for (size_t page = 0; page < estimate.state().pages().size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(estimate.rest(page), token)) continue;
      const int number = bin_of(page, token);
      bin_of_token_[page * NKV_PAGE_TOKENS + token] = static_cast<int16_t>(number);
      Bin& entered = bins_[static_cast<size_t>(number - kFirstBin)];
      ++entered.tokens;
      for (size_t row = 0; row < estimate.rows(); ++row) {
        entered.contributions2[row] += estimate.contribution2(row, page, token);
      }
    }
  }
}

int ContributionBins::bin_of(size_t page, uint32_t token) const {
  double sum = 0;  // A²
  for (size_t row = 0; row < estimate_->rows(); ++row) {
    const double a2 = estimate_->contribution2(row, page, token);
    if (a2 > 0) sum += a2 / (targets_[row] * targets_[row]);
  }
  const double quarters = std::floor(2.0 * std::log2(sum));  // 4 · log2 A; −∞ where A = 0
  return static_cast<int>(
      std::clamp(quarters, static_cast<double>(kFirstBin), static_cast<double>(kLastBin)));
}

TokenSet ContributionBins::settled() const {
  // From the bottom: as many bins stay unread as the targets allow.
  std::vector<double> unread2(estimate_->rows(), 0.0);
  int first_read = kFirstBin;
  for (; first_read <= kLastBin; ++first_read) {
    bool fits = true;
    for (size_t row = 0; row < unread2.size(); ++row) {
      unread2[row] += bin(first_read).contributions2[row];
      fits = fits && unread2[row] <= targets_[row] * targets_[row];
    }
    if (!fits) break;
  }
  TokenSet tokens = estimate_->state().pages().none();
  for (size_t page = 0; page < tokens.size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (has_token(estimate_->rest(page), token) &&
          bin_of_token_[page * NKV_PAGE_TOKENS + token] >= first_read) {
        tokens[page] |= token_bit(token);
      }
    }
  }
  return tokens;
}

double ContributionBins::inclusion(int bin, int offset) {
  return std::min(1.0, std::exp2((bin + 1 + offset) / 4.0));
}

bool ContributionBins::is_enough(int offset, double standard_deviations) const {
  double expected = 0;  // Σ q
  std::vector<double> variances(estimate_->rows(), 0.0);
  for (int number = kFirstBin; number <= kLastBin; ++number) {
    const Bin& counted = bin(number);
    if (counted.tokens == 0) continue;
    const double q = inclusion(number, offset);
    expected += static_cast<double>(counted.tokens) * q;
    for (size_t row = 0; row < variances.size(); ++row) {
      variances[row] += counted.contributions2[row] * (1.0 - q) / q;
    }
  }
  const uint64_t least = std::min(kLeastSample, estimate_->rest_tokens());
  bool is_enough = expected >= static_cast<double>(least);
  for (size_t row = 0; row < variances.size(); ++row) {
    const double allowed = kPlanningMargin * targets_[row] / standard_deviations;
    is_enough = is_enough && variances[row] <= allowed * allowed;
  }
  return is_enough;
}

std::vector<SampledToken> ContributionBins::sample(uint32_t seed, uint32_t round,
                                                   double standard_deviations) const {
  // With −kFirstBin − 1 every probability is 1; 64 octaves below the last bin none matters.
  int offset = -kLastBin - 256;
  while (offset < -kFirstBin - 1 && !is_enough(offset, standard_deviations)) ++offset;

  std::vector<SampledToken> sample;
  for (size_t page = 0; page < estimate_->state().pages().size(); ++page) {
    const uint32_t first_token = estimate_->state().pages()[page].first_token();
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(estimate_->rest(page), token)) continue;
      const double q = inclusion(bin_of_token_[page * NKV_PAGE_TOKENS + token], offset);
      const double hash = sample_hash(seed, round, first_token + token);
      if (hash < std::ldexp(q, 32)) {
        sample.push_back({.page = page, .token = token, .probability = q});
      }
    }
  }
  return sample;
}

}  // namespace nearkv::model

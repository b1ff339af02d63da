#include "attend/rounded_scores.hpp"

#include <algorithm>
#include <cmath>

namespace nearkv {
namespace {

/// The exponent to give a row's largest element, so that its products with the largest keys are
/// near one, but not so low that smaller elements of the row underflow.
int row_exponent(int key_exponent) { return std::clamp(254 - key_exponent, 64, 253); }

/// All rows, each times a power of two.
std::vector<float> scaled_rows(const Query& query, int key_exponent) {
  std::vector<float> rows;
  rows.reserve(query.values().size());
  for (std::size_t row = 0; row < query.rows(); ++row) {
    const int up = row_exponent(key_exponent) - query.exponent(row);
    for (const float value : query.values(row)) rows.push_back(std::ldexp(value, up));
  }
  return rows;
}

/// Twice the most that a score can be off. Each of the sum's steps rounds at 2^-24 of what it has
/// reached, or to zero below 2^-126, and so may the elements of the row. The exact score truncates,
/// too: with the powers of two above the largest elements, a query by 2^-23 of its own, a key by
/// 2^-26.
std::vector<float> slacks(std::span<const float> rows, std::size_t dim, int key_exponent) {
  const double largest_key = std::ldexp(1.0, key_exponent - 126);
  const double largest = std::ldexp(largest_key, row_exponent(key_exponent) - 126);
  const auto terms = static_cast<double>(dim);
  std::vector<float> result;
  for (std::size_t begin = 0; begin < rows.size(); begin += dim) {
    double norm = 0;
    for (const float value : rows.subspan(begin, dim)) norm += std::abs(value);
    const double rounding = 1.01 * terms * 0x1p-24 * norm * largest_key;
    const double underflow = terms * (0x1p-125 + 0x1p-126 * largest_key);
    const double truncation = terms * 0x1p-22 * largest;
    result.push_back(static_cast<float>(2.01 * (rounding + underflow + truncation)));
  }
  return result;
}

}  // namespace

RoundedScorer::RoundedScorer(const Query& query, int key_exponent)
    : RoundedScorer(scaled_rows(query, key_exponent), query.dim(), key_exponent) {}

RoundedScorer::RoundedScorer(std::span<const float> rows, std::size_t dim, int key_exponent)
    : slack_(slacks(rows, dim, key_exponent)),
      portable_(order_query(rows, dim)),
      bf16_(rows, dim) {}

std::span<const float> RoundedScorer::score(const PageView& page, const std::byte* next,
                                            DenseScratch* scratch, SpanScope* scope) const {
  scratch->reserve(rows());
  float* const scores = scratch->scores.get();
  if (!bf16_.score(page, next, &scratch->bf16, scope, scores))
    score_page(portable_, page, next, scratch);
  return {scores, rows() * NKV_PAGE_TOKENS};
}

}  // namespace nearkv

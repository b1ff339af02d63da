// Drawn scores of a page's tokens and their weights (ARITHMETIC.md, sections 13.1 and 13.2).
#include <algorithm>
#include <array>
#include <limits>

#include "codes/page_kernels_portable.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv::portable {
namespace {

void token_weights(const std::int16_t* drawn, std::int32_t top, std::uint16_t* weights) {
  const auto& mantissas = weight_mantissas();
  for (std::size_t t = 0; t < kTokens; ++t) {
    const std::int32_t below = top - (drawn[t] >> 7);
    weights[t] = below < 0 || below > 15
                     ? std::uint16_t{0}
                     : static_cast<std::uint16_t>(
                           mantissas[static_cast<std::size_t>(drawn[t] & 127)] >> below);
  }
}

std::uint64_t coded_shares(const std::int16_t* drawn, std::int32_t top, const std::int16_t* factors,
                           std::uint16_t* shares) {
  token_weights(drawn, top, shares);
  std::uint64_t some = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto factor = static_cast<std::uint16_t>(factors[t]);
    shares[t] = static_cast<std::uint16_t>((std::uint32_t{shares[t]} * factor) >> 17);
    some |= std::uint64_t{shares[t] != 0 ? 1U : 0U} << t;
  }
  return some;
}

PageWeight weigh_row(const std::int16_t* above, const DrawnPage& page, const DrawnRow& row,
                     std::int16_t* drawn) {
  PageWeight result{std::numeric_limits<std::int16_t>::min(), 0};
  for (std::size_t t = 0; t < kTokens; ++t) {
    const unsigned factor = factor_of(page.factors, t);
    const std::size_t planes = planes_of(page.refined, factor, t);
    const std::int32_t half = has(page.exact, t) ? 0 : row.half[planes - 1][factor];
    const std::int32_t distance = saturate(above[t] + half - row.mean);
    const std::int32_t moved =
        row.mean + ((distance * row.part[planes - 1][factor] + (1 << 14)) >> 15);
    const std::int32_t score = std::clamp(moved, above[t] - half, above[t] + half);
    drawn[t] = static_cast<std::int16_t>(score);
    if (has(page.visible, t)) result.top = std::max(result.top, score >> 7);
  }
  std::array<std::uint16_t, kTokens> weights;
  token_weights(drawn, result.top, weights.data());
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(page.rest, t)) result.rest += weights[t];
  }
  return result;
}

void weigh(const std::int16_t* above, const DrawnPage& page, const DrawnRow* rows,
           std::size_t count, std::int16_t* drawn, PageWeight* weights) {
  for (std::size_t row = 0; row < count; ++row) {
    weights[row] = weigh_row(above + row * kTokens, page, rows[row], drawn + row * kTokens);
  }
}

std::size_t bins(const std::int16_t* scores, std::uint64_t tokens, std::int16_t least,
                 std::uint16_t below, std::uint16_t* bins) {
  std::size_t count = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (!has(tokens, t) || scores[t] < least) continue;
    bins[count++] = static_cast<std::uint16_t>(static_cast<std::uint16_t>(below - scores[t]) >> 4);
  }
  return count;
}

std::int16_t largest(const std::int16_t* scores, std::uint64_t tokens) {
  std::int16_t largest = kNoLog16;
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(tokens, t)) largest = std::max(largest, scores[t]);
  }
  return largest;
}

}  // namespace

void set_weight_kernels(PageKernels* kernels) {
  kernels->weigh = weigh;
  kernels->coded_shares = coded_shares;
  kernels->bins = bins;
  kernels->largest = largest;
}

}  // namespace nearkv::portable

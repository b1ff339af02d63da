#include "attend/error_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace nearkv {
namespace {

constexpr std::size_t kGrainPages = 16;
/// Tokens below this share of the mean contribution are not told apart: it costs a few more reads
/// and saves looking at most pages token by token.
constexpr double kQuietShare = 0.25;

}  // namespace

ErrorModel::ErrorModel(const AttendContext& context, const TailSums* sums)
    : context_(context), sums_(*sums) {}

void ErrorModel::set_state(const SoftmaxState& state) {
  outputs_.assign(state.accumulator.begin(), state.accumulator.end());
  norms_.assign(state.rows(), 0);
  totals_.assign(state.sum.begin(), state.sum.end());
  references_ = state.maximum;
  for (std::size_t row = 0; row < state.rows(); ++row) {
    double squares = 0;
    for (std::size_t c = 0; c < state.dim; ++c) {
      float& value = outputs_[row * state.dim + c];
      value /= state.sum[row];
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    norms_[row] = std::sqrt(squares);
  }
}

void ErrorModel::measure_pages(std::span<const double> targets) {
  const std::size_t rows = sums_.rows();
  const std::size_t pages = context_.list.pages();
  factors_.resize(pages * rows);
  page_squares_.assign(pages, 0.0F);
  std::vector<double> cells(rows);     // Variance of a logit per sum of squared weights.
  std::vector<double> inverses(rows);  // 1 / (Z * T)^2.
  for (std::size_t row = 0; row < rows; ++row) {
    const double cell = sums_.logits(row).per_score * std::ldexp(64.0, NKV_PLANE_WEIGHT_SHIFT) /
                        std::numbers::log2e;
    cells[row] = cell * cell / 12;
    const double scale = totals_[row] * targets[row];
    inverses[row] = scale > 0 ? 1 / (scale * scale) : 0;
  }
  context_.workers->for_each(pages, kGrainPages, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t page = begin; page < end; ++page) {
      const std::uint64_t inexact = sums_.rest(page);
      if (inexact == 0) continue;
      const auto tokens = static_cast<float>(std::popcount(inexact));
      const float residual = sums_.residual(page);
      for (std::size_t row = 0; row < rows; ++row) {
        const WeightSums& weights = sums_.weights(page, row);
        const double variance =
            cells[row] * static_cast<double>(context_.scan->fold(row, page).weight_squares);
        const float distance = squared_distance(sums_.mean(page), output(row).data(), sums_.dim());
        const double factor = inverses[row];
        Factors& factors = factors_[page * rows + row];
        factors.mean = weights.sum / tokens;
        factors.spread = static_cast<float>(factor * static_cast<double>(residual));
        factors.noise = static_cast<float>(factor * std::expm1(std::min(variance, 30.0)) *
                                           static_cast<double>(distance + residual));
        const float centred = std::max(weights.squares - weights.sum * weights.sum / tokens, 0.0F);
        page_squares_[page] += factors.spread * centred + factors.noise * weights.squares;
      }
    }
  });
}

void ErrorModel::bin_page(std::size_t page, float floor, ContributionBins* bins) {
  const std::size_t rows = sums_.rows();
  const std::uint64_t inexact = sums_.rest(page);
  std::vector<double> shares(rows);
  if (page_squares_[page] <= floor) {
    page_bins_[page] = static_cast<std::int16_t>(ContributionBins::bin_of(floor));
    for (std::size_t row = 0; row < rows; ++row) {
      const Factors& factors = factors_[page * rows + row];
      const WeightSums& weights = sums_.weights(page, row);
      const double tokens = std::popcount(inexact);
      const double squares = static_cast<double>(weights.squares);
      const double sum = static_cast<double>(weights.sum);
      shares[row] =
          static_cast<double>(factors.spread) * std::max(squares - sum * sum / tokens, 0.0) +
          static_cast<double>(factors.noise) * squares;
    }
    bins->add(page_bins_[page], std::popcount(inexact), shares);
    return;
  }
  page_bins_[page] = -1;
  std::vector<float> own(rows * NKV_PAGE_TOKENS);
  std::array<float, NKV_PAGE_TOKENS> weights;
  std::array<float, NKV_PAGE_TOKENS> squares{};
  for (std::size_t row = 0; row < rows; ++row) {
    const Factors& factors = factors_[page * rows + row];
    weigh_midpoints(context_.scan->mids(row, page).data(), inexact, sums_.logits(row).midpoint,
                    references_[row], weights.data());
    add_contributions(weights.data(), inexact, factors.mean, factors.spread, factors.noise, 1.0F,
                      own.data() + row * NKV_PAGE_TOKENS, squares.data());
  }
  for (std::uint64_t left = inexact; left != 0; left &= left - 1) {
    const auto token = static_cast<std::size_t>(std::countr_zero(left));
    for (std::size_t row = 0; row < rows; ++row) {
      shares[row] = static_cast<double>(own[row * NKV_PAGE_TOKENS + token]);
    }
    const int bin = ContributionBins::bin_of(squares[token]);
    token_bins_[page * NKV_PAGE_TOKENS + token] = static_cast<std::uint8_t>(bin);
    bins->add(bin, 1, shares);
  }
}

void ErrorModel::bin_contributions(std::span<const double> targets, ContributionBins* bins) {
  measure_pages(targets);
  const std::size_t pages = context_.list.pages();
  page_bins_.resize(pages);
  token_bins_.resize(pages * NKV_PAGE_TOKENS);
  // Upper bound of the mean A: a page's root mean square per token.
  double contributions = 0;
  double tokens = 0;
  for (std::size_t page = 0; page < pages; ++page) {
    const double count = std::popcount(sums_.rest(page));
    contributions += std::sqrt(static_cast<double>(page_squares_[page]) * count);
    tokens += count;
  }
  const double quiet = tokens > 0 ? kQuietShare * contributions / tokens : 0;
  const auto floor = static_cast<float>(quiet * quiet);
  std::vector<ContributionBins> parts(context_.workers->size(), ContributionBins(sums_.rows()));
  context_.workers->for_each(pages, kGrainPages,
                             [&](unsigned member, std::size_t begin, std::size_t end) {
                               for (std::size_t page = begin; page < end; ++page) {
                                 if (sums_.rest(page) != 0) bin_page(page, floor, &parts[member]);
                               }
                             });
  for (const ContributionBins& part : parts) bins->merge(part);
}

void ErrorModel::choose_from(int lowest, std::span<std::uint64_t> chosen) const {
  for (std::size_t page = 0; page < chosen.size(); ++page) {
    for (std::uint64_t left = sums_.rest(page); left != 0; left &= left - 1) {
      if (bin(page, static_cast<std::size_t>(std::countr_zero(left))) >= lowest) {
        chosen[page] |= left & (~left + 1);
      }
    }
  }
}

}  // namespace nearkv

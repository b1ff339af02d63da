#include "codes/row_errors.hpp"

#include <algorithm>

#include "codes/code_form.hpp"
#include "codes/code_kernels.hpp"

namespace nearkv {
namespace {

constexpr int kGoalBits = 24;
constexpr int kCoherentParts = 640;
constexpr std::int64_t kMostBase = std::int64_t{1} << 20;

/// U of a bin's middle, and of what is left of a granule at a threshold.
struct ErrorPowers {
  std::array<std::int64_t, kErrorBins> of_bins;
  std::array<std::int64_t, ErrorHistogram::kThresholds> of_thresholds;
};

const ErrorPowers& error_powers() {
  static const ErrorPowers powers = [] {
    ErrorPowers made{};
    for (std::size_t i = 0; i < made.of_bins.size(); ++i) {
      made.of_bins[i] = octaves_fixed(4 * (kLeastErrorBin + static_cast<int>(i)) + 2, kGoalBits);
    }
    for (std::size_t i = 0; i < made.of_thresholds.size(); ++i) {
      made.of_thresholds[i] = octaves_fixed(
          4 * (ErrorHistogram::kLeastThreshold + static_cast<int>(i)) - 32, kGoalBits);
    }
    return made;
  }();
  return powers;
}

/// Calls visit(first, end) for runs of pages with codes, at most kPagesAtATime of them.
template <typename Visit>
void for_each_coded_run(const CodeState& state, std::size_t begin, std::size_t end,
                        const Visit& visit) {
  while (begin < end) {
    std::size_t next = begin;
    const std::size_t last = std::min(end, begin + kPagesAtATime);
    while (next < last && state.pages()[next].coded() != 0) ++next;
    if (next > begin) visit(begin, next);
    begin = next < last ? next + 1 : next;
  }
}

}  // namespace

void ErrorHistogram::add(const ErrorHistogram& other) {
  for (std::size_t set = 0; set < kBinSets; ++set) {
    for (std::size_t bin = 0; bin < kErrorBins; ++bin) bins_[set][bin] += other.bins_[set][bin];
  }
}

ErrorHistogram::Left ErrorHistogram::left(int cut) const {
  const auto& [of_bins, of_thresholds] = error_powers();
  Left left;
  Int128 below = 0;        // Of the bins below the cut,
  std::int64_t above = 0;  // and granules of the others.
  std::array<std::uint32_t, kErrorBins> counts{};
  for (const auto& set : bins_) {
    for (std::size_t bin = 0; bin < kErrorBins; ++bin) counts[bin] += set[bin];
  }
  for (const std::uint32_t count : counts) above += count;
  std::size_t bin = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int cut_bin = kLeastThreshold + static_cast<int>(i) + cut - kLeastErrorBin;
    for (; static_cast<int>(bin) < std::min(cut_bin, int{kErrorBins}); ++bin) {
      below += Int128{counts[bin]} * of_bins[bin];
      above -= counts[bin];
    }
    left[i] = below + Int128{above} * of_thresholds[i];
  }
  return left;
}

void RowErrors::reset(const CodeState& state) {
  kernels_ = &page_kernels();
  rows_ = state.rows();
  key_count_ = state.key_granules().count;
  value_count_ = state.value_granules().count;
  logs_.reset(state);
  const std::size_t granules = state.pages().size() * (key_count_ + value_count_);
  key_energies_.reserve(state.pages().size() * rows_ * key_count_);
  prices_.reserve(state.pages().size() * rows_ * value_count_);
  page_errors_.reserve(granules + NKV_PAGE_TOKENS);
  scales_.resize(state.pages().size());
  goals_.resize(rows_);
  distances_.resize(state.pages().size() * rows_);
  worst_keys_.assign(state.pages().size(), kNoLog16);
  worst_values_.assign(state.pages().size(), kNoLog16);
  totals_.assign(rows_, 0);
  left_.clear();
}

/// d^2 of some pages, at most kPagesAtATime.
void RowErrors::find_distances(const CodeState& state, std::size_t begin, std::size_t end,
                               std::size_t row, std::int32_t* distances) const {
  const RowGoal& goal = goals_[row];
  std::array<const std::int8_t*, kPagesAtATime> means{};
  std::array<std::int64_t, kPagesAtATime> products{};
  bool are_all_near = true;
  for (std::size_t page = begin; page < end; ++page) {
    means[page - begin] = state.pages()[page].values.mean;
    are_all_near &= std::abs(scales_.powers[page] - goal.power) <= kShortDistance;
  }
  kernels_->output_products(means.data(), end - begin, outputs_.data() + row * padded_,
                            goal.output.size(), products.data());
  if (are_all_near) {
    kernels_->mean_distances({.products = products.data(),
                              .squares = scales_.squares.data() + begin,
                              .powers = scales_.powers.data() + begin,
                              .spreads = scales_.spreads.data() + begin,
                              .pages = end - begin,
                              .output_squares = goal.squares,
                              .output_power = goal.power},
                             distances);
    return;
  }
  for (std::size_t page = begin; page < end; ++page) {
    distances[page - begin] =
        mean_distance(scales_.powers[page], scales_.at(page), products[page - begin], goal);
  }
}

/// Of pages that are all coded, at most kPagesAtATime.
void RowErrors::measure_pages(const CodeState& state, std::size_t begin, std::size_t end,
                              std::span<Part> parts) {
  constexpr std::size_t kMost = kPagesAtATime * NKV_MAX_GROUP;
  std::array<std::int32_t, kMost> of_keys;
  std::array<std::int32_t, kMost> of_values;
  std::array<std::int32_t, kMost> of_shares;
  std::array<std::int32_t, kPagesAtATime> distances;
  for (std::size_t row = 0; row < rows_; ++row) {
    find_distances(state, begin, end, row, distances.data());
    for (std::size_t page = begin; page < end; ++page) {
      const std::size_t at = (page - begin) * rows_ + row;
      const int energy = this->energy(state.row_page(page, row), row);
      const int residual = scales_.residuals[page];
      distances_[page * rows_ + row] = distances[page - begin];
      of_keys[at] = energy + distances[page - begin];
      of_values[at] = energy + residual;
      of_shares[at] = (energy >> 1) + (residual >> 1);
    }
  }
  std::array<GranuleTotals, NKV_MAX_GROUP> totals;
  std::fill_n(totals.begin(), rows_, GranuleTotals{});
  kernels_->total({.keys = logs_.keys(begin),
                   .values = logs_.values(begin),
                   .shares = logs_.shares(begin),
                   .planes = state.value_planes(begin),
                   .of_keys = of_keys.data(),
                   .of_values = of_values.data(),
                   .of_shares = of_shares.data(),
                   .pages = end - begin,
                   .rows = rows_,
                   .key_count = key_count_,
                   .value_count = value_count_},
                  key_energies_.data() + begin * rows_ * key_count_,
                  prices_.data() + begin * rows_ * value_count_, totals.data());
  for (std::size_t row = 0; row < rows_; ++row) {
    parts[row].total += totals[row].energy;
    parts[row].coherent += totals[row].coherent;
  }
}

void RowErrors::measure(const CodeState& state, const CodeSums& sums, int value_exponent,
                        const ErrorDemand& demand, Workers* workers) {
  for (std::size_t row = 0; row < rows_; ++row) {
    set_goal(sums, row, value_exponent, demand, &goals_[row]);
  }
  padded_ = padded_channels(sums.dim);
  outputs_.reserve(rows_ * padded_);
  std::fill_n(outputs_.data(), rows_ * padded_, std::int16_t{0});
  for (std::size_t row = 0; row < rows_; ++row) {
    std::ranges::copy(goals_[row].output, outputs_.data() + row * padded_);
  }
  parts_.assign(workers->size() * rows_, {});
  workers->for_each(state.pages().size(), kPagesAtATime,
                    [&](unsigned member, std::size_t begin, std::size_t end) {
                      const auto parts = std::span(parts_).subspan(member * rows_, rows_);
                      for_each_coded_run(state, begin, end,
                                         [&](std::size_t first, std::size_t last) {
                                           measure_pages(state, first, last, parts);
                                         });
                    });
  left_.clear();
  for (std::size_t row = 0; row < rows_; ++row) {
    Part sum;
    for (std::size_t member = 0; member < workers->size(); ++member) {
      sum.total += parts_[member * rows_ + row].total;
      sum.coherent += parts_[member * rows_ + row].coherent;
    }
    sum.coherent = std::min<Int128>(sum.coherent, kMostError);
    sum.total += (sum.coherent * sum.coherent >> kGoalBits) / kCoherentParts;
    totals_[row] = static_cast<std::int64_t>(std::min<Int128>(sum.total, kMostError));
    if (totals_[row] > kErrorGoal) left_.push_back(static_cast<std::uint32_t>(row));
  }
}

int RowErrors::energy(const RowPage& page, std::size_t row) const {
  const std::int64_t base = 32 * std::int64_t{page.octave} - goals_[row].goal;
  return static_cast<int>(std::clamp(base, -kMostBase, kMostBase));
}

std::array<ErrorHistogram, 2> RowErrors::count(const CodeState& state, Workers* workers) {
  const auto errors_of = [&](const AlignedNumbers<std::int16_t>& energies, std::size_t count,
                             std::size_t bursts, std::size_t first, std::size_t end) {
    return GranuleErrors{.errors = energies.data() + first * rows_ * count,
                         .pages = end - first,
                         .rows = rows_,
                         .count = count,
                         .some = left_.data(),
                         .some_count = left_.size(),
                         .cost = static_cast<std::int16_t>(log2_sixteenths(bursts))};
  };
  const std::size_t stride = key_count_ + value_count_;
  counts_.assign(workers->size(), {});
  workers->for_each(
      state.pages().size(), kPagesAtATime,
      [&](unsigned member, std::size_t begin, std::size_t end) {
        auto& [keys, values] = counts_[member];
        for_each_coded_run(state, begin, end, [&](std::size_t first, std::size_t last) {
          std::int16_t* const largest = page_errors_.data() + first * stride;
          kernels_->worst(
              errors_of(key_energies_, key_count_, state.key_granules().bursts, first, last),
              largest, stride, worst_keys_.data() + first, keys.bins());
          kernels_->worst(
              errors_of(prices_, value_count_, state.value_granules().bursts, first, last),
              largest + key_count_, stride, worst_values_.data() + first, values.bins());
        });
      });
  std::array<ErrorHistogram, 2> all;
  for (const auto& [keys, values] : counts_) {
    all[0].add(keys);
    all[1].add(values);
  }
  return all;
}

}  // namespace nearkv

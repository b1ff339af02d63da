#include "codes/row_errors.hpp"

#include <algorithm>

#include "codes/code_form.hpp"
#include "codes/code_kernels.hpp"

namespace nearkv {
namespace {

constexpr int kGoalBits = 24;
constexpr int kCoherentParts = 640;
constexpr std::int64_t kMostBase = std::int64_t{1} << 20;

}  // namespace

ErrorHistogram::Left ErrorHistogram::left(int cut) const {
  Left left;
  Int128 below = 0;  // Of the bins below the cut,
  Int128 above = 0;  // and granules of the others.
  for (const std::uint32_t count : counts_) above += count;
  int bin = kLeastBin;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int threshold = kLeastThreshold + static_cast<int>(i);
    for (; bin < std::min(threshold + cut, kMostBin + 1); ++bin) {
      const std::uint32_t count = counts_[static_cast<std::size_t>(bin - kLeastBin)];
      below += Int128{count} * octaves_fixed(4 * bin + 2, kGoalBits);
      above -= count;
    }
    left[i] = below + above * octaves_fixed(4 * threshold - 32, kGoalBits);
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
                      while (begin < end) {
                        std::size_t next = begin;
                        const std::size_t last = std::min(end, begin + kPagesAtATime);
                        while (next < last && state.pages()[next].coded() != 0) ++next;
                        if (next > begin) measure_pages(state, begin, next, parts);
                        begin = next < last ? next + 1 : next;
                      }
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

void RowErrors::find_page_errors(std::size_t page) {
  const auto raise = [&](const std::int16_t* energies, std::size_t count, std::int16_t* largest) {
    std::fill_n(largest, count, kNoLog16);
    for (const std::uint32_t row : left_) {
      const std::int16_t* const own = energies + (page * rows_ + row) * count;
      for (std::size_t g = 0; g < count; ++g) largest[g] = std::max(largest[g], own[g]);
    }
  };
  std::int16_t* const largest = page_errors_.data() + page * (key_count_ + value_count_);
  raise(key_energies_.data(), key_count_, largest);
  raise(prices_.data(), value_count_, largest + key_count_);
}

std::array<ErrorHistogram, 2> RowErrors::count(const CodeState& state, Workers* workers) {
  const int key_cost = log2_sixteenths(state.key_granules().bursts);
  const int value_cost = log2_sixteenths(state.value_granules().bursts);
  counts_.assign(workers->size(), {});
  workers->for_each(state.pages().size(), kPagesAtATime,
                    [&](unsigned member, std::size_t begin, std::size_t end) {
                      auto& [keys, values] = counts_[member];
                      for (std::size_t page = begin; page < end; ++page) {
                        if (state.pages()[page].coded() == 0) continue;
                        find_page_errors(page);
                        const std::int16_t* const errors = page_errors(page);
                        for (std::size_t g = 0; g < key_count_; ++g) {
                          if (errors[g] != kNoLog16) keys.count(errors[g] - key_cost);
                        }
                        for (std::size_t g = key_count_; g < key_count_ + value_count_; ++g) {
                          if (errors[g] != kNoLog16) values.count(errors[g] - value_cost);
                        }
                      }
                    });
  std::array<ErrorHistogram, 2> all;
  for (const auto& [keys, values] : counts_) {
    all[0].add(keys);
    all[1].add(values);
  }
  return all;
}

}  // namespace nearkv

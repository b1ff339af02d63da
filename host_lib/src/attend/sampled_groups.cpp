#include "attend/sampled_groups.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attend/grain.hpp"

namespace nearkv {
namespace {

constexpr double kVarianceShare = 4;  ///< Of the groups' spread in the variance.

/// Index in the sample of the first token of each page.
std::vector<std::size_t> page_starts(const std::vector<std::uint64_t>& chosen) {
  std::vector<std::size_t> starts(chosen.size());
  for (std::size_t page = 1; page < chosen.size(); ++page) {
    starts[page] = starts[page - 1] + static_cast<std::size_t>(std::popcount(chosen[page - 1]));
  }
  return starts;
}

}  // namespace

struct SampledGroups::Part {
  std::vector<float> sums;
  std::vector<float> accumulator;
  hwy::AlignedFreeUniquePtr<float[]> value;
  Traffic traffic;

  Part(std::size_t rows, std::size_t dim)
      : sums(rows * kSums),
        accumulator(rows * kSums * dim),
        value(hwy::AllocateAligned<float>(dim)) {}
};

SampledGroups::SampledGroups(const AttendContext& context, const TailSums& sums)
    : context_(context), sums_(sums) {}

void SampledGroups::accumulate(const Sample& sample, const ExactTokens& tokens, std::size_t page,
                               std::size_t index, const PageView& view, Part* part) const {
  const std::size_t dim = sums_.dim();
  for (std::uint64_t left = sample.chosen[page]; left != 0; left &= left - 1, ++index) {
    const auto token = static_cast<std::size_t>(std::countr_zero(left));
    const std::size_t group = sample.group[index];
    const auto more = static_cast<float>((1 << sample.halvings[index]) - 1);
    decode_value(view.values(), token, part->value.get());
    for (std::size_t row = 0; row < sums_.rows(); ++row) {
      const RowLogits& logits = sums_.logits(row);
      const float weight = std::exp2(logits.exact(tokens.of(index)[row]) - state_.maximum[row]);
      const float approximate = std::exp2(
          logits.midpoint.of(context_.scan->mids(row, page)[token]) - state_.maximum[row]);
      part->sums[row * kSums] += weight - approximate;
      part->sums[row * kSums + group] += more * (weight - approximate);
      float* const accumulator = part->accumulator.data() + row * kSums * dim;
      add_difference(part->value.get(), sums_.mean(page), dim, weight, approximate, more,
                     accumulator, accumulator + group * dim);
    }
  }
}

void SampledGroups::merge(const std::vector<Part>& parts, Traffic* traffic) {
  const std::size_t dim = sums_.dim();
  groups_.assign(sums_.rows() * kSums * dim, 0.0F);
  group_sums_.assign(sums_.rows() * kSums, 0.0F);
  for (const Part& part : parts) {
    *traffic += part.traffic;
    add_scaled(1.0F, part.accumulator.data(), groups_.size(), groups_.data());
    for (std::size_t i = 0; i < group_sums_.size(); ++i) group_sums_[i] += part.sums[i];
  }
  for (std::size_t row = 0; row < sums_.rows(); ++row) {
    state_.sum[row] += group_sums_[row * kSums];
    add_scaled(1.0F, groups_.data() + row * kSums * dim, dim, state_.values(row).data());
  }
}

Outcome SampledGroups::take(const Sample& sample, bool reads_means, Traffic* traffic) {
  ExactTokens tokens;
  Outcome outcome = score_exactly(context_.list, sample.chosen, sums_.scorer(),
                                  context_.query.dim(), context_.workers, &tokens, traffic);
  if (!outcome.ok()) return outcome;
  for (std::size_t row = 0; row < sums_.rows(); ++row) {
    for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
      state_.raise(row, sums_.logits(row).exact(tokens.of(i)[row]));
    }
  }
  const std::vector<std::size_t> starts = page_starts(sample.chosen);
  std::vector<Part> parts;
  parts.reserve(context_.workers->size());
  for (unsigned i = 0; i < context_.workers->size(); ++i)
    parts.emplace_back(sums_.rows(), sums_.dim());
  FirstFault fault;
  context_.workers->for_each(
      starts.size(), kPlanePagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        Part& part = parts[member];
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          if (sample.chosen[page] == 0) continue;
          PageView view;
          Status status = sums_.open(page, &view);
          if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_V_EXPONENTS);
          if (status != Status::kOk) {
            fault.record(page, status);
            continue;
          }
          accumulate(sample, tokens, page, starts[page], view, &part);
          part.traffic.value += value_bursts(view, sample.chosen[page]);
          if (reads_means) {
            part.traffic.value += bursts(view.bytes(NKV_PAGE_ARRAY_V_SUM).size());
          }
        }
      });
  merge(parts, traffic);
  return fault.outcome();
}

double SampledGroups::measure_row(std::size_t row) const {
  const std::size_t dim = sums_.dim();
  const float* const sums = group_sums_.data() + row * kSums;
  const float* const groups = groups_.data() + row * kSums * dim;
  auto total = static_cast<double>(state_.sum[row]);
  for (std::size_t i = 1; i < kSums; ++i) total += static_cast<double>(sums[i]);
  if (!(total > 0)) return std::numeric_limits<double>::infinity();
  double spread = 0;
  double size = 0;
  for (std::size_t c = 0; c < dim; ++c) {
    auto all = static_cast<double>(state_.values(row)[c]);
    for (std::size_t i = 1; i < kSums; ++i) all += static_cast<double>(groups[i * dim + c]);
    const double output = all / total;
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 1; i < kSums; ++i) {
      const double residual =
          (static_cast<double>(groups[i * dim + c]) - output * static_cast<double>(sums[i])) /
          total;
      sum += residual;
      squares += residual * residual;
    }
    spread += static_cast<double>(kSums - 1) * squares - sum * sum;
    size += output * output;
  }
  return spread > 0 ? std::sqrt(spread / kVarianceShare / size) : 0;
}

void SampledGroups::measure() {
  deviations_.clear();
  for (std::size_t row = 0; row < sums_.rows(); ++row) deviations_.push_back(measure_row(row));
}

SoftmaxState SampledGroups::total() const {
  SoftmaxState total = state_;
  const std::size_t dim = sums_.dim();
  for (std::size_t row = 0; row < sums_.rows() && !groups_.empty(); ++row) {
    for (std::size_t i = 1; i < kSums; ++i) {
      total.sum[row] += group_sums_[row * kSums + i];
      add_scaled(1.0F, groups_.data() + (row * kSums + i) * dim, dim, total.values(row).data());
    }
    if (total.sum[row] > 0) continue;
    total.sum[row] = std::numeric_limits<float>::min();
    std::ranges::fill(total.values(row), 0.0F);
  }
  return total;
}

}  // namespace nearkv

#include "attend/sampled_correction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nearkv {
namespace {

constexpr std::size_t kGrainPages = 16;

}  // namespace

struct SampledCorrection::Part {
  hwy::AlignedFreeUniquePtr<float[]> vectors;  ///< Per row: correction, cross.
  std::vector<SampleSums> rows;
  hwy::AlignedFreeUniquePtr<float[]> value;
  Traffic traffic;

  Part(std::size_t count, std::size_t dim)
      : vectors(hwy::AllocateAligned<float>(2 * count * dim)),
        rows(count),
        value(hwy::AllocateAligned<float>(dim)) {
    std::fill_n(vectors.get(), 2 * count * dim, 0.0F);
    for (std::size_t row = 0; row < count; ++row) {
      rows[row].correction = vectors.get() + 2 * row * dim;
      rows[row].cross = vectors.get() + (2 * row + 1) * dim;
    }
  }
};

SampledCorrection::SampledCorrection(const AttendContext& context, const TailSums& sums,
                                     const ErrorModel& model, const SoftmaxState& state)
    : context_(context), sums_(sums), model_(model), state_(state) {}

void SampledCorrection::choose(const Inclusion& inclusion, std::uint32_t seed,
                               std::uint32_t round) {
  std::array<std::uint64_t, ContributionBins::kBins> thresholds;  // Of 2^32.
  for (std::size_t bin = 0; bin < thresholds.size(); ++bin) {
    thresholds[bin] = static_cast<std::uint64_t>(std::ldexp(inclusion[bin], 32));
  }
  chosen_.assign(context_.list.pages(), 0);
  context_.workers->for_each(
      chosen_.size(), kGrainPages, [&](unsigned, std::size_t begin, std::size_t end) {
        for (std::size_t page = begin; page < end; ++page) {
          for (std::uint64_t left = sums_.rest(page); left != 0; left &= left - 1) {
            const auto token = static_cast<std::size_t>(std::countr_zero(left));
            const auto position = static_cast<std::uint32_t>(page * NKV_PAGE_TOKENS + token);
            const auto bin = static_cast<std::size_t>(model_.bin(page, token));
            if (inclusion_hash(seed, round, position) < thresholds[bin]) {
              chosen_[page] |= left & (~left + 1);
            }
          }
        }
      });
}

Outcome SampledCorrection::accumulate(const Inclusion& inclusion, std::vector<Part>* parts,
                                      Traffic* traffic) {
  const std::size_t rows = sums_.rows();
  std::vector<std::size_t> starts(chosen_.size());
  for (std::size_t page = 1; page < chosen_.size(); ++page) {
    starts[page] = starts[page - 1] + static_cast<std::size_t>(std::popcount(chosen_[page - 1]));
  }
  FirstFault fault;
  context_.workers->for_each(
      chosen_.size(), kGrainPages, [&](unsigned member, std::size_t begin, std::size_t end) {
        Part& part = (*parts)[member];
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          if (chosen_[page] == 0) continue;
          PageView view;
          Status status = sums_.open(page, &view);
          if (status == Status::kOk) status = view.verify(NKV_PAGE_ARRAY_V_EXPONENTS);
          if (status != Status::kOk) {
            fault.record(page, status);
            continue;
          }
          const RowSource values = view.values();
          const auto inexact = static_cast<float>(std::popcount(sums_.rest(page)));
          std::size_t index = starts[page];
          for (std::uint64_t left = chosen_[page]; left != 0; left &= left - 1, ++index) {
            const auto token = static_cast<std::size_t>(std::countr_zero(left));
            decode_value(values, token, part.value.get());
            const double q = inclusion[static_cast<std::size_t>(model_.bin(page, token))];
            for (std::size_t row = 0; row < rows; ++row) {
              const RowLogits& logits = sums_.logits(row);
              const float inverse_total = 1.0F / state_.sum[row];
              const float weight =
                  std::exp2(logits.exact(tokens_.of(index)[row]) - state_.maximum[row]) *
                  inverse_total;
              const float approximate =
                  std::exp2(logits.midpoint.of(context_.scan->mids(row, page)[token]) -
                            state_.maximum[row]) *
                  inverse_total;
              const float mean_weight = sums_.weights(page, row).sum / inexact * inverse_total;
              add_sample(part.value.get(), sums_.mean(page), model_.output(row).data(), sums_.dim(),
                         weight - approximate, weight - mean_weight, static_cast<float>(1 / q),
                         static_cast<float>((1 - q) / (q * q)), &part.rows[row]);
            }
          }
          if (view.header().v_form != NKV_ROW_FORM_NONE) {
            part.traffic.value += row_bursts(chosen_[page], values.row_bytes) +
                                  (values.is_delta4() ? bursts(values.dim) : 0);
          }
        }
      });
  for (const Part& part : *parts) *traffic += part.traffic;
  return fault.outcome();
}

void SampledCorrection::conclude(const std::vector<Part>& parts) {
  const std::size_t dim = sums_.dim();
  corrections_.assign(sums_.rows() * dim, 0.0F);
  for (std::size_t row = 0; row < sums_.rows(); ++row) {
    std::vector<double> correction(dim);
    std::vector<double> cross(dim);
    SampleSums total;
    for (const Part& part : parts) {
      const SampleSums& sums = part.rows[row];
      total.squares += sums.squares;
      total.difference_squares += sums.difference_squares;
      total.difference += sums.difference;
      for (std::size_t c = 0; c < dim; ++c) {
        correction[c] += static_cast<double>(sums.correction[c]);
        cross[c] += static_cast<double>(sums.cross[c]);
      }
    }
    // A sample may not turn the sum of weights negative, however unlucky.
    const double normaliser = std::max(1 + total.difference, 1e-3);
    double length = 0;
    double cross_product = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      correction[c] /= normaliser;
      length += correction[c] * correction[c];
      cross_product += correction[c] * cross[c];
    }
    const double variance =
        std::max(total.squares - 2 * cross_product + total.difference_squares * length, 0.0) /
        (normaliser * normaliser);
    const double shrink = length > 0 ? std::max(0.0, 1 - variance / length) : 0.0;
    for (std::size_t c = 0; c < dim; ++c) {
      corrections_[row * dim + c] = static_cast<float>(shrink * correction[c]);
    }
    normalisers_.push_back(normaliser);
    deviations_.push_back(std::sqrt(variance));
  }
}

Outcome SampledCorrection::draw(const Inclusion& inclusion, std::uint32_t seed, std::uint32_t round,
                                Traffic* traffic) {
  choose(inclusion, seed, round);
  Outcome outcome = score_exactly(context_.list, chosen_, sums_.scorer(), context_.query.dim(),
                                  context_.workers, &tokens_, traffic);
  if (!outcome.ok()) return outcome;
  std::vector<Part> parts;
  parts.reserve(context_.workers->size());
  for (unsigned i = 0; i < context_.workers->size(); ++i) {
    parts.emplace_back(sums_.rows(), sums_.dim());
  }
  outcome = accumulate(inclusion, &parts, traffic);
  if (outcome.ok()) conclude(parts);
  return outcome;
}

double SampledCorrection::apply(std::size_t row, SoftmaxState* state) const {
  double squares = 0;
  state->sum[row] *= static_cast<float>(normalisers_[row]);
  const std::span<float> values = state->values(row);
  for (std::size_t c = 0; c < values.size(); ++c) {
    const float output = model_.output(row)[c] + corrections_[row * values.size() + c];
    squares += static_cast<double>(output) * static_cast<double>(output);
    values[c] = output * state->sum[row];
  }
  return std::sqrt(squares);
}

}  // namespace nearkv

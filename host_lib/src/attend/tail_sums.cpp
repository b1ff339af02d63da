#include "attend/tail_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attend/grain.hpp"

namespace nearkv {
namespace {

/// One worker's share of a pass.
struct TailPart {
  std::vector<float> sum;
  hwy::AlignedFreeUniquePtr<float[]> accumulator;
  std::vector<float> weights;
  Traffic traffic;

  TailPart(std::size_t rows, std::size_t dim)
      : sum(rows),
        accumulator(hwy::AllocateAligned<float>(rows * dim)),
        weights(std::max<std::size_t>(rows, NKV_PAGE_TOKENS)) {
    std::fill_n(accumulator.get(), rows * dim, 0.0F);
  }
};

std::vector<TailPart> make_parts(unsigned workers, std::size_t rows, std::size_t dim) {
  std::vector<TailPart> parts;
  parts.reserve(workers);
  for (unsigned i = 0; i < workers; ++i) parts.emplace_back(rows, dim);
  return parts;
}

void add_parts(const std::vector<TailPart>& parts, SoftmaxState* state, Traffic* traffic) {
  for (const TailPart& part : parts) {
    *traffic += part.traffic;
    for (std::size_t row = 0; row < state->rows(); ++row) state->sum[row] += part.sum[row];
    add_scaled(1.0F, part.accumulator.get(), state->accumulator.size(), state->accumulator.data());
  }
}

/// Index in `tokens` of the first token of each page of `chosen`.
std::vector<std::size_t> token_starts(std::span<const std::uint64_t> chosen) {
  std::vector<std::size_t> starts(chosen.size());
  std::size_t start = 0;
  for (std::size_t page = 0; page < chosen.size(); ++page) {
    starts[page] = start;
    start += static_cast<std::size_t>(std::popcount(chosen[page]));
  }
  return starts;
}

}  // namespace

std::uint64_t value_bursts(const PageView& view, std::uint64_t chosen) {
  if (view.header().v_form == NKV_ROW_FORM_NONE) return 0;
  const RowSource values = view.values();
  return row_bursts(chosen, values.row_bytes) + (values.is_delta4() ? bursts(values.dim) : 0);
}

void mark_unsafe(const PlaneScan& scan, std::span<std::uint64_t> exact) {
  for (std::size_t page = 0; page < scan.pages(); ++page) {
    const bool whole = scan.visible(page) == ~std::uint64_t{0};
    exact[page] |= whole ? scan.saturated(page) : scan.visible(page);
  }
}

TailSums::TailSums(const AttendContext& context, const AttendSpec& request)
    : context_(context),
      request_(request),
      scorer_(context.query, context.list.k_exponent()),
      exact_(context.list.pages()),
      sum_index_(context.list.pages(), -1) {}

Status TailSums::open(std::size_t page, PageView* view) const {
  const Status status =
      context_.list.open(page, HeaderDepth::kRows, context_.query.dim(), request_.value_dim, view);
  if (status != Status::kOk) return status;
  return dim_ == 0 || view->values().dim == dim_ ? Status::kOk : Status::kBadPage;
}

Outcome TailSums::start() {
  logits_ = row_logits(context_, request_);
  for (std::size_t page = 0; page < exact_.size() && dim_ == 0; ++page) {
    if (context_.scan->visible(page) == 0) continue;
    PageView view;
    const Status status = open(page, &view);
    if (status != Status::kOk) return {status, page};
    dim_ = view.values().dim;
  }
  const std::vector<std::uint16_t> position = kernel_order(dim_);
  channels_.resize(dim_);
  for (std::size_t c = 0; c < dim_; ++c) channels_[position[c]] = static_cast<std::int32_t>(c);
  exact_state_.reset(rows(), dim_);
  means_.resize(exact_.size() * dim_);
  return {};
}

const float* TailSums::exact_sum(std::size_t page) const {
  return sum_index_[page] < 0
             ? nullptr
             : exact_sums_.data() + static_cast<std::size_t>(sum_index_[page]) * dim_;
}

Outcome TailSums::add_exact(std::span<const std::uint64_t> chosen, Traffic* traffic) {
  ExactTokens tokens;
  const Outcome outcome = score_exactly(context_.list, chosen, scorer_, context_.query.dim(),
                                        context_.workers, &tokens, traffic);
  return outcome.ok() ? add_scored(chosen, tokens, traffic) : outcome;
}

Outcome TailSums::add_scored(std::span<const std::uint64_t> chosen, const ExactTokens& tokens,
                             Traffic* traffic) {
  for (std::size_t row = 0; row < rows(); ++row) {
    for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
      exact_state_.raise(row, logits_[row].exact(tokens.of(i)[row]));
    }
  }
  for (std::size_t page = 0; page < chosen.size(); ++page) {
    if (chosen[page] == 0 || sum_index_[page] >= 0) continue;
    sum_index_[page] = static_cast<std::int32_t>(exact_sums_.size() / dim_);
    exact_sums_.resize(exact_sums_.size() + dim_);
  }
  const std::vector<std::size_t> starts = token_starts(chosen);
  std::vector<TailPart> parts = make_parts(context_.workers->size(), rows(), dim_);
  FirstFault fault;
  context_.workers->for_each(
      chosen.size(), kPlanePagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        TailPart& part = parts[member];
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          if (chosen[page] == 0) continue;
          PageView view;
          Status status = open(page, &view);
          if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_V_EXPONENTS);
          if (status != Status::kOk) {
            fault.record(page, status);
            continue;
          }
          const RowSource values = view.values();
          float* const page_sum =
              exact_sums_.data() + static_cast<std::size_t>(sum_index_[page]) * dim_;
          std::size_t index = starts[page];
          for (std::uint64_t left = chosen[page]; left != 0; left &= left - 1, ++index) {
            for (std::size_t row = 0; row < rows(); ++row) {
              part.weights[row] =
                  std::exp2(logits_[row].exact(tokens.of(index)[row]) - exact_state_.maximum[row]);
              part.sum[row] += part.weights[row];
            }
            accumulate_token(values, static_cast<std::size_t>(std::countr_zero(left)),
                             std::span(part.weights).first(rows()), part.accumulator.get(),
                             page_sum);
          }
          part.traffic.value += value_bursts(view, chosen[page]);
        }
      });
  add_parts(parts, &exact_state_, traffic);
  for (std::size_t page = 0; page < chosen.size(); ++page) exact_[page] |= chosen[page];
  return fault.outcome();
}

std::vector<float> TailSums::midpoint_references() const {
  std::vector<float> references(rows(), -std::numeric_limits<float>::infinity());
  for (std::size_t row = 0; row < rows(); ++row) {
    std::int16_t best = kMaskedMidpoint;
    for (std::size_t page = 0; page < exact_.size(); ++page) {
      if (rest(page) != 0) best = std::max(best, context_.scan->page_largest(row, page));
    }
    if (best != kMaskedMidpoint) references[row] = logits_[row].midpoint.of(best);
  }
  return references;
}

Status TailSums::take_mean(std::size_t page, Traffic* traffic) {
  PageView view;
  Status status = open(page, &view);
  if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_V_SUM);
  if (status != Status::kOk) return status;
  traffic->stream += bursts(view.bytes(NKV_PAGE_ARRAY_V_SUM).size());
  page_mean(view.data<std::int32_t>(NKV_PAGE_ARRAY_V_SUM), view.header().value_dim,
            std::ldexp(1.0F, view.header().v_exponent - 150), exact_sum(page),
            static_cast<std::size_t>(std::popcount(rest(page))), channels_,
            means_.data() + page * dim_);
  return Status::kOk;
}

Outcome TailSums::summarise(SoftmaxState* state, Traffic* traffic) {
  *state = exact_state_;
  const std::vector<float> reference = midpoint_references();
  for (std::size_t row = 0; row < rows(); ++row) state->raise(row, reference[row]);
  std::vector<TailPart> parts = make_parts(context_.workers->size(), rows(), dim_);
  FirstFault fault;
  context_.workers->for_each(
      exact_.size(), kPlanePagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        TailPart& part = parts[member];
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          const std::uint64_t inexact = rest(page);
          if (inexact == 0) continue;
          const Status status = take_mean(page, &part.traffic);
          if (status != Status::kOk) {
            fault.record(page, status);
            continue;
          }
          for (std::size_t row = 0; row < rows(); ++row) {
            const float weight =
                weigh_midpoints(context_.scan->mids(row, page).data(), inexact,
                                logits_[row].midpoint, state->maximum[row], part.weights.data());
            part.sum[row] += weight;
            add_scaled(weight, mean(page), dim_, part.accumulator.get() + row * dim_);
          }
        }
      });
  add_parts(parts, state, traffic);
  return fault.outcome();
}

}  // namespace nearkv

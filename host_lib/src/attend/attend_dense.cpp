#include <algorithm>
#include <array>
#include <cmath>

#include "attend/attend.hpp"
#include "attend/bf16_pages.hpp"
#include "attend/grain.hpp"

namespace nearkv {
namespace {

constexpr std::array kRowArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS};

/// Opens a page for reading all its rows, and counts them.
Status open_rows(const AttendContext& context, std::size_t page, std::size_t value_dim,
                 PageView* view, std::uint64_t* read) {
  Status status = context.list.open(page, HeaderDepth::kRows, context.query.dim(), value_dim, view);
  if (status != Status::kOk) return status;
  *read += bursts(sizeof(nkv_page_header));
  for (const nkv_page_array array : kRowArrays) *read += bursts(view->bytes(array).size());
  return view->check(kRowArrays);
}

/// Of a list that is summed in order.
constexpr std::size_t kPagesOfPart = 16;

/// What a worker has summed, or of which pages that is.
struct DensePart {
  SoftmaxState bf16;          ///< By Bf16Pages,
  SoftmaxState other;         ///< and of the pages that it does not take.
  std::size_t value_dim = 0;  ///< Of both; 0: no page yet.
  std::uint64_t read = 0;
  bool nonfinite = false;
};

void merge(SoftmaxState* from, SoftmaxState* into) {
  if (from->dim == 0) return;
  if (into->dim == 0) {
    *into = std::move(*from);
  } else {
    into->merge(*from);
  }
}

/// One DENSE command.
class DenseAttention {
 public:
  DenseAttention(const AttendContext& context, const AttendSpec& request)
      : context_(context),
        request_(request),
        query_(prepare_dense(context.query, request.scale, request.soft_cap)),
        bf16_(context.query, request.scale, request.soft_cap, context.list.k_exponent()) {}

  /// Attends to all pages, to those that Bf16Pages takes by it if `with_bf16`.
  Outcome run(bool with_bf16) {
    const bool in_order = context_.sums_in_order;
    const std::size_t pages = context_.list.pages();
    const unsigned workers = context_.workers->size();
    parts_ = std::vector<DensePart>(in_order ? (pages + kPagesOfPart - 1) / kPagesOfPart : workers);
    FirstFault fault;
    context_.workers->for_each(
        pages, in_order ? kPagesOfPart : whole_pages_at_a_time(pages, workers),
        [&](unsigned member, std::size_t begin, std::size_t end) {
          SpanScope scope;
          for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
            const std::uint64_t mask = context_.visibility.mask(page);
            if (mask == 0) continue;
            DensePart& part = parts_[in_order ? page / kPagesOfPart : member];
            const Status status =
                attend(page, mask, with_bf16, &(*context_.scratch)[member], &scope, &part);
            if (status != Status::kOk) fault.record(page, status);
          }
        });
    return fault.outcome();
  }

  /// Whether Bf16Pages has met no value that is not finite: it does not take those for zero.
  [[nodiscard]] bool is_finite() const {
    return std::ranges::all_of(parts_, [](const DensePart& part) {
      return std::ranges::all_of(part.bf16.accumulator, [](float x) { return std::isfinite(x); });
    });
  }

  void finish(AttendResult* result) {
    result->state.reset(query_.rows, 0);
    for (DensePart& part : parts_) {
      result->traffic.stream += part.read;
      result->nonfinite |= part.nonfinite;
      Bf16Pages::order_channels(&part.bf16);
      merge(&part.bf16, &result->state);
      merge(&part.other, &result->state);
    }
    result->bound.assign(query_.rows, 0.0F);
  }

 private:
  Status attend(std::size_t page, std::uint64_t mask, bool with_bf16, DenseScratch* scratch,
                SpanScope* scope, DensePart* part) {
    PageView view;
    const Status status = open_rows(context_, page, request_.value_dim, &view, &part->read);
    if (status != Status::kOk) return status;
    // Pages that store values and pages that do not may have other rows of the same value_dim.
    const std::size_t dim = view.values().dim;
    if (part->value_dim == 0) part->value_dim = dim;
    if (part->value_dim != dim) return Status::kBadPage;
    const std::uint64_t taking_part = mask & ~view.header().nonfinite;
    part->nonfinite |= taking_part != mask;
    const std::byte* const next = context_.list.peek(page + 1);
    const bool is_bf16 = with_bf16 && bf16_.takes(view);
    SoftmaxState& state = is_bf16 ? part->bf16 : part->other;
    if (state.dim == 0) state.reset(query_.rows, dim);
    if (is_bf16) {
      bf16_.attend(view, taking_part, next, &scratch->bf16, scope, &state);
    } else {
      scratch->reserve(query_.rows);
      attend_page(query_, view, taking_part, next, scratch, &state);
    }
    return Status::kOk;
  }

  const AttendContext& context_;
  const AttendSpec& request_;
  DenseQuery query_;
  Bf16Pages bf16_;
  std::vector<DensePart> parts_;
};

}  // namespace

Outcome attend_dense(const AttendContext& context, const AttendSpec& request,
                     AttendResult* result) {
  DenseAttention attention(context, request);
  Outcome outcome = attention.run(true);
  if (outcome.ok() && !attention.is_finite()) outcome = attention.run(false);
  if (outcome.ok()) attention.finish(result);
  return outcome;
}

}  // namespace nearkv

#include <array>

#include "attend/attend.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kGrainPages = 8;
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

}  // namespace

Outcome attend_dense(const AttendContext& context, const AttendSpec& request,
                     AttendResult* result) {
  struct Part {
    SoftmaxState state;
    std::uint64_t read = 0;
    bool nonfinite = false;
  };
  const DenseQuery query =
      prepare_dense(context.query, request.scale, request.soft_cap, context.list.k_exponent());
  std::vector<Part> parts(context.workers->size());
  FirstFault fault;
  context.workers->for_each(
      context.list.pages(), kGrainPages, [&](unsigned member, std::size_t begin, std::size_t end) {
        Part& part = parts[member];
        DenseScratch& scratch = (*context.scratch)[member];
        scratch.reserve(query.rows);
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          const std::uint64_t mask = context.visibility.mask(page);
          if (mask == 0) continue;
          PageView view;
          const Status status = open_rows(context, page, request.value_dim, &view, &part.read);
          const std::size_t dim = view.values().dim;
          if (status == Status::kOk && part.state.dim == 0) part.state.reset(query.rows, dim);
          if (status != Status::kOk || part.state.dim != dim) {
            fault.record(page, status != Status::kOk ? status : Status::kBadPage);
            continue;
          }
          const std::uint64_t taking_part = mask & ~view.header().nonfinite;
          part.nonfinite |= taking_part != mask;
          attend_page(query, view, taking_part, context.list.peek(page + 1), &scratch, &part.state);
        }
      });
  if (fault.any()) return fault.outcome();
  result->state.reset(query.rows, 0);
  for (Part& part : parts) {
    result->traffic.stream += part.read;
    result->nonfinite |= part.nonfinite;
    if (part.state.dim == 0) continue;
    if (result->state.dim == 0) {
      result->state = std::move(part.state);
    } else {
      result->state.merge(part.state);
    }
  }
  result->bound.assign(query.rows, 0.0F);
  return {};
}

}  // namespace nearkv

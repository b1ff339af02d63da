#include "attend/tail_sums.hpp"

namespace nearkv {

Outcome attend_tail(const AttendContext& context, const AttendSpec& request, AttendResult* result) {
  constexpr unsigned kPlanes = 2;
  PlaneScan* const scan = context.scan;
  Outcome outcome =
      scan->run(context.list, context.visibility, context.query, kPlanes, context.workers);
  if (!outcome.ok()) return outcome;
  result->traffic += scan->traffic();
  result->nonfinite = scan->nonfinite();
  result->bound.assign(context.query.rows(), 0.0F);

  std::vector<std::uint64_t> exact(context.list.pages());
  mark_unsafe(*scan, exact);
  if (request.top_k != 0) {
    for (std::size_t row = 0; row < scan->rows(); ++row) {
      const bool all = scan->visible_tokens() <= request.top_k;
      scan->mark(row, all ? std::int16_t{kMaskedMidpoint + 1} : scan->threshold(row, request.top_k),
                 exact);
    }
  }
  TailSums sums(context, request);
  outcome = sums.start();
  if (outcome.ok() && sums.dim() != 0) outcome = sums.add_exact(exact, &result->traffic);
  if (outcome.ok() && sums.dim() != 0) outcome = sums.summarise(&result->state, &result->traffic);
  if (sums.dim() == 0) result->state.reset(context.query.rows(), 0);
  return outcome;
}

}  // namespace nearkv

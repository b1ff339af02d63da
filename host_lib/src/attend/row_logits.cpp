#include "attend/row_logits.hpp"

#include <cmath>
#include <numbers>

namespace nearkv {

float RowLogits::exact(std::int64_t score) const {
  const double logit = static_cast<double>(score) * per_score;
  if (midpoint.soft_cap <= 0) return static_cast<float>(logit);
  const auto cap = static_cast<double>(midpoint.soft_cap);
  return static_cast<float>(cap * std::tanh(logit / cap));
}

std::vector<RowLogits> row_logits(const AttendContext& context, const AttendSpec& request) {
  std::vector<RowLogits> logits(context.query.rows());
  for (std::size_t row = 0; row < logits.size(); ++row) {
    const MidpointScale& scale = context.scan->scale(row);
    const double unit = score_unit(context.query.exponent(row), context.list.k_exponent());
    logits[row].per_score = unit * static_cast<double>(request.scale) * std::numbers::log2e;
    const double per_weight_unit = std::ldexp(logits[row].per_score, NKV_PLANE_WEIGHT_SHIFT);
    MidpointLogit& midpoint = logits[row].midpoint;
    midpoint.slope = static_cast<float>(std::ldexp(per_weight_unit, static_cast<int>(scale.shift)));
    midpoint.intercept = static_cast<float>(per_weight_unit * scale.reference);
    midpoint.soft_cap = request.soft_cap * std::numbers::log2e_v<float>;
  }
  return logits;
}

}  // namespace nearkv

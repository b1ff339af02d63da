#include "attend/span.hpp"

namespace nearkv {

SpanScope::~SpanScope() {
  if (release != nullptr) release();
}

AttendSpan attend_span_bf16(const SpanShape& shape) {
  const AttendSpan amx = attend_span_amx(shape);
  return amx != nullptr ? amx : attend_span_avx512(shape);
}

ScoreSpan score_span_bf16(const SpanShape& shape) {
  const ScoreSpan amx = score_span_amx(shape);
  return amx != nullptr ? amx : score_span_avx512(shape);
}

}  // namespace nearkv

// ATTEND: softmax(q K) V over a page list (ARITHMETIC.md 4, 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/dense.hpp"
#include "attend/query.hpp"
#include "attend/softmax_state.hpp"
#include "attend/traffic.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

struct AttendSpec {
  std::size_t value_dim = 0;
  float scale = 1;
  float soft_cap = 0;                ///< 0: none.
  std::size_t top_k = 0;             ///< TAIL.
  unsigned z16 = NKV_USUAL_BOUND_Z;  ///< BOUNDED: standard deviations, in sixteenths.
  float error = 0;                   ///< BOUNDED: wanted relative error.
  unsigned byte_cap = 0;             ///< BOUNDED: in 1/256 of a dense read; 0: none.
};

struct AttendResult {
  SoftmaxState state;        ///< Channels in kernel order; logits base 2.
  std::vector<float> bound;  ///< Per row, relative to |O|; 0 unless BOUNDED.
  Traffic traffic;
  bool nonfinite = false;
  bool dense_fallback = false;
  bool capped = false;
  unsigned rounds = 0;
};

/// What a command works on, and buffers that are kept between commands.
struct AttendContext {
  const PageList& list;
  const Visibility& visibility;
  const Query& query;
  Workers* workers;
  std::vector<DenseScratch>* scratch;  ///< One per worker.
  /// DENSE sums pieces of the list that depend on nothing else, and merges them in their order: no
  /// bit depends on who works on what.
  bool sums_in_order = false;
};

Outcome attend_dense(const AttendContext& context, const AttendSpec& request, AttendResult* result);

}  // namespace nearkv

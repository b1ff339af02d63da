// The commands that OpenCL kernels answer; they give the model's bits.
#ifndef NEARKV_OPENCL_COMMANDS_HPP_
#define NEARKV_OPENCL_COMMANDS_HPP_

#include "attend.hpp"
#include "engine.hpp"
#include "opencl/runtime.hpp"
#include "topk.hpp"

namespace nearkv::opencl {

/// TOPK, mode FULL: scores by kernels, ranking on the host.
model::TopkAnswer topk_full(Runtime& runtime, const model::TopkTask& task);

/// ATTEND, mode DENSE: scores, logits and sums by kernels, the last quotients on the host.
model::AttendAnswer attend_dense(Runtime& runtime, const model::AttendTask& task);

/// What the FEATURES register says: pages are served by their rows alone.
inline constexpr std::uint64_t kFeatures = NKV_FEATURE_INDEXER | NKV_FEATURE_TRANSCODE;

/// Those by kernels, and TRANSCODE's blocks in INT8, INT4 and FP8; all else as the model does it.
/// What makes codes or reads by them is UNSUPPORTED, a page with codes BAD_PAGE. A command that the
/// OpenCL device fails ends with OUT_OF_MEMORY if it has too little, else with INTERNAL, and writes
/// nothing but pages that were done before.
model::Outcome execute(Runtime& runtime, const model::Domain& domain,
                       const model::Command& command);

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_COMMANDS_HPP_

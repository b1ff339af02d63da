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

/// Those two by kernels, all else as the model does it. INTERNAL when the OpenCL device fails.
model::Outcome execute(Runtime& runtime, const model::Domain& domain,
                       const model::Command& command);

/// S of every token of a run for all rows, [token][row].
cl::Buffer scores_of(Runtime& runtime, const model::ScanInput& input,
                     const model::ListedPages& pages, const cl::Buffer& query, std::size_t first,
                     std::size_t end);

/// q̄ of all rows.
cl::Buffer upload_query(Runtime& runtime, const model::Query& query);

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_COMMANDS_HPP_

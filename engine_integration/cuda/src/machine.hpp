// What kernels run on: a GPU, or this machine's cores in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "block.hpp"
#include "nearkv/status.hpp"
#include "nearkv_cuda.h"

#if !defined(__CUDACC__)
#include "emulated/threads.hpp"
#endif

namespace nearkv::cuda {

/// A status with what a person has to know of it.
struct [[nodiscard]] Outcome {
  Status status = Status::kOk;
  std::string reason{};

  [[nodiscard]] bool ok() const { return status == Status::kOk; }
};

/// One GPU, its pointers and its streams. A stream is a cudaStream_t; emulated, kernels run when
/// they are launched, and streams mean nothing.
///
/// Thread safety: all calls.
class Machine {
 public:
  static Outcome open(int ordinal, Machine* machine);

  [[nodiscard]] const nearkv_cuda_info& info() const { return info_; }

  /// Makes the GPU the calling thread's, and whichever was it before again.
  Outcome enter(int* before) const;
  static void leave(int before);

  /// Whether kernels may follow the pointer.
  [[nodiscard]] bool reaches(const void* pointer) const;

  template <typename Kernel>
  Outcome launch(const Kernel& kernel, void* stream) const;

 private:
  static constexpr std::uint64_t kMostBlocks = (std::uint64_t{1} << 31) - 1;

  /// kOk, or why no grid of this size can be.
  [[nodiscard]] Outcome check(const Grid& grid) const {
    if (grid.blocks > kMostBlocks) {
      return {Status::kUnsupported, "more work than one launch takes; cut it into several"};
    }
    if (grid.shared_bytes > info_.shared_bytes) {
      return {Status::kUnsupported, "these rows need " + std::to_string(grid.shared_bytes) +
                                        " bytes of shared memory a block; this GPU has " +
                                        std::to_string(info_.shared_bytes)};
    }
    return {};
  }

  [[maybe_unused]] int ordinal_ = 0;  // An emulated GPU has none.
  nearkv_cuda_info info_{};
};

#if defined(__CUDACC__)

/// Of what CUDA says; `what` was tried.
Outcome outcome_of(cudaError_t error, const char* what);

template <typename Kernel>
__global__ void __launch_bounds__(kThreads) entry(const __grid_constant__ Kernel kernel) {
  GpuBlock block;
  kernel(block);
}

template <typename Kernel>
Outcome Machine::launch(const Kernel& kernel, void* stream) const {
  const Grid grid = kernel.grid();
  if (grid.blocks == 0) return {};
  Outcome outcome = check(grid);
  if (!outcome.ok()) return outcome;
  constexpr std::size_t kWithoutAsking = 48 << 10;
  if (grid.shared_bytes > kWithoutAsking) {
    // All that a block may have, since it is the kernel's, not the launch's: another thread may
    // start the same kernel with more at this moment.
    outcome =
        outcome_of(cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(info_.shared_bytes)),
                   "asking for shared memory");
    if (!outcome.ok()) return outcome;
  }
  entry<<<static_cast<unsigned>(grid.blocks), kThreads, grid.shared_bytes,
          static_cast<cudaStream_t>(stream)>>>(kernel);
  return outcome_of(cudaGetLastError(), "starting a kernel");
}

#else

template <typename Kernel>
Outcome Machine::launch(const Kernel& kernel, void* /*stream*/) const {
  const Grid grid = kernel.grid();
  Outcome outcome = check(grid);
  if (outcome.ok()) run_grid(kernel, grid);
  return outcome;
}

#endif

}  // namespace nearkv::cuda

// What a kernel sees of its machine. Kernels are templates over their block, so that one text runs
// on a GPU and, thread by thread, on this machine's cores.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define NKV_KERNEL __device__ __forceinline__
#define NKV_BOTH __host__ __device__ __forceinline__
#else
#define NKV_KERNEL inline
#define NKV_BOTH inline
#endif

namespace nearkv::cuda {

/// Of every block.
inline constexpr unsigned kThreads = 128;

/// How a kernel is started: `blocks` blocks of kThreads threads, with so much shared memory each.
struct Grid {
  std::uint64_t blocks = 0;
  std::size_t shared_bytes = 0;
};

/// 16 bytes that move at once; memory of theirs starts at a multiple of 16.
struct alignas(16) Words4 {
  std::uint32_t word[4];
};

/// A block, as kernels take it:
///
///   unsigned thread()               this thread of the block
///   unsigned index()                this block of the grid
///   void sync()                     a barrier of the block, which orders its memory
///   std::byte* shared()             the block's memory, at a multiple of 16, not initialised
///
/// Every thread of a block reaches the same barriers.
#if defined(__CUDACC__)
class GpuBlock {
 public:
  NKV_KERNEL unsigned thread() const { return threadIdx.x; }
  NKV_KERNEL unsigned index() const { return blockIdx.x; }
  NKV_KERNEL void sync() const { __syncthreads(); }
  NKV_KERNEL std::byte* shared() const {
    extern __shared__ uint4 nearkv_shared[];
    return reinterpret_cast<std::byte*>(nearkv_shared);
  }
};
#endif

}  // namespace nearkv::cuda

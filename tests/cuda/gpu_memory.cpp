// Memory for kernels that a GPU runs: the host's, pinned.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <new>

#include "cuda/gpu.hpp"

namespace nearkv::test {

std::shared_ptr<std::byte> reachable(std::size_t bytes) {
  void* place = nullptr;
  if (cudaMallocHost(&place, std::max<std::size_t>(bytes, 1)) != cudaSuccess) {
    throw std::bad_alloc();
  }
  return {static_cast<std::byte*>(place), [](std::byte* owned) { cudaFreeHost(owned); }};
}

void synchronize() {
  const cudaError_t error = cudaDeviceSynchronize();
  EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

}  // namespace nearkv::test

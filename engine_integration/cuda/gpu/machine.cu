// A GPU, by the CUDA runtime.
#include <cstdio>

#include "gpu/errors.hpp"
#include "kernels/merge.hpp"
#include "machine.hpp"

namespace nearkv::cuda {

Outcome outcome_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  std::string reason = std::string(what) + ": " + cudaGetErrorString(error);
  if (is_of_capture(error)) reason += "; not while a graph is captured";
  const Status status = status_of(error);
  if (status == Status::kInternal) {
    reason += "; the GPU is lost to this process, start it again (nvidia-smi tells of its health)";
  } else {
    cudaGetLastError();  // So that nobody else takes it for theirs.
  }
  return {status, std::move(reason)};
}

Outcome Machine::open(int ordinal, Machine* machine) {
  int count = 0;
  Outcome outcome = outcome_of(cudaGetDeviceCount(&count), "looking for GPUs");
  if (!outcome.ok()) return outcome;
  if (ordinal < 0 || ordinal >= count) {
    return {Status::kNoDevice,
            "there is no GPU " + std::to_string(ordinal) + " among " + std::to_string(count)};
  }
  cudaDeviceProp properties{};
  outcome = outcome_of(cudaGetDeviceProperties(&properties, ordinal), "asking what the GPU is");
  if (!outcome.ok()) return outcome;
  machine->ordinal_ = ordinal;
  nearkv_cuda_info& info = machine->info_;
  std::snprintf(info.name, sizeof(info.name), "%s", properties.name);
  info.architecture = static_cast<std::uint32_t>(properties.major * 10 + properties.minor);
  info.multiprocessors = static_cast<std::uint32_t>(properties.multiProcessorCount);
  info.shared_bytes = properties.sharedMemPerBlockOptin;
  int before = 0;
  outcome = machine->enter(&before);
  if (!outcome.ok()) return outcome;
  // Tells at once whether there is code for this GPU; loading is lazy otherwise.
  cudaFuncAttributes attributes{};
  outcome = outcome_of(cudaFuncGetAttributes(&attributes, entry<Merge>), "loading the kernels");
  leave(before);
  if (outcome.status == Status::kUnsupported) {
    outcome.reason += "; this library has no code for compute capability " +
                      std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                      ": build it with that in NEARKV_CUDA_ARCHITECTURES";
  }
  return outcome;
}

Outcome Machine::enter(int* before) const {
  const Outcome outcome = outcome_of(cudaGetDevice(before), "asking for the current GPU");
  return outcome.ok() ? outcome_of(cudaSetDevice(ordinal_), "choosing the GPU") : outcome;
}

void Machine::leave(int before) { cudaSetDevice(before); }

bool Machine::reaches(const void* pointer) const {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  // Of another GPU's memory, what peer access makes of it is the caller's to know.
  if (attributes.type != cudaMemoryTypeUnregistered) return attributes.devicePointer != nullptr;
  int pageable = 0;
  cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, ordinal_);
  return pageable != 0;
}

}  // namespace nearkv::cuda

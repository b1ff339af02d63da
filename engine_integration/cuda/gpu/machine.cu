// A GPU, by the CUDA runtime.
#include <cstdio>
#include <span>

#include "gpu/errors.hpp"
#include "kernels/merge.hpp"
#include "machine.hpp"
#include "mapping.hpp"

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

Outcome Machine::lock(void* memory, std::size_t bytes, bool is_card, void** as_seen) const {
  unsigned flags = cudaHostRegisterMapped;
  if (is_card) {
    flags |= cudaHostRegisterIoMemory;
    touch_pages(memory, bytes);
  }
  const cudaError_t error = cudaHostRegister(memory, bytes, flags);
  if (error != cudaSuccess && is_card) {
    cudaGetLastError();
    return {Status::kUnsupported,
            std::string("the GPU's driver does not reach the card's memory: ") +
                cudaGetErrorString(error) +
                "; both have to be below one root that passes on what one writes to the other, and "
                "the IOMMU to let it"};
  }
  if (error == cudaErrorMemoryAllocation || error == cudaErrorUnknown) {
    cudaGetLastError();
    return {Status::kIoError, "the system does not lock " + std::to_string(bytes >> 20) +
                                  " MiB of memory; raise ulimit -l"};
  }
  const Outcome outcome = outcome_of(error, "registering host memory");
  if (!outcome.ok()) return outcome;
  const cudaError_t seen = cudaHostGetDevicePointer(as_seen, memory, 0);
  if (seen != cudaSuccess) cudaHostUnregister(memory);
  return outcome_of(seen, "mapping host memory");
}

Outcome Machine::unlock(void* memory) const {
  return outcome_of(cudaHostUnregister(memory), "unregistering host memory");
}

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

Outcome Machine::synchronize(void* stream) const {
  return outcome_of(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "running kernels");
}

}  // namespace nearkv::cuda

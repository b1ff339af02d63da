// What CUDA's errors are in the contract.
#pragma once

#include <driver_types.h>

#include "nearkv/status.hpp"

namespace nearkv::cuda {

/// Whether something was asked for that a graph's capture does not take; the GPU is well.
[[nodiscard]] inline bool is_of_capture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

/// kInternal: the GPU is lost to the process.
[[nodiscard]] inline Status status_of(cudaError_t error) {
  if (is_of_capture(error)) return Status::kUnsupported;
  switch (error) {
    case cudaSuccess:
      return Status::kOk;
    case cudaErrorMemoryAllocation:
      return Status::kOutOfMemory;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemNotReady:
    case cudaErrorDevicesUnavailable:
      return Status::kNoDevice;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorNotSupported:
    case cudaErrorNotPermitted:
      return Status::kUnsupported;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
      return Status::kBadArgument;
    default:
      return Status::kInternal;
  }
}

}  // namespace nearkv::cuda

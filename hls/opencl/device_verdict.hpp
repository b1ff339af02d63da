// How an OpenCL device got through a command.
#ifndef NEARKV_OPENCL_DEVICE_VERDICT_HPP_
#define NEARKV_OPENCL_DEVICE_VERDICT_HPP_

#include "opencl/runtime.hpp"
#include "verdict.hpp"

namespace nearkv::opencl {

/// Takes the runtime's error. OUT_OF_MEMORY if the device has too little, INTERNAL for all else;
/// the detail is OpenCL's number, negated.
inline model::Verdict device_verdict(Runtime& runtime) {
  const cl_int error = runtime.take_error();
  switch (error) {
    case CL_SUCCESS:
      return {};
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
      return {NKV_STATUS_OUT_OF_MEMORY, static_cast<std::uint64_t>(-std::int64_t{error})};
    default:
      return {NKV_STATUS_INTERNAL, static_cast<std::uint64_t>(-std::int64_t{error})};
  }
}

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_DEVICE_VERDICT_HPP_

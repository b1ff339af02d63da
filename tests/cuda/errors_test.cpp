// What CUDA's errors become; needs its header, but no GPU.
#include "gpu/errors.hpp"

#include <gtest/gtest.h>

namespace nearkv::cuda {
namespace {

TEST(CudaErrors, ThoseOfAGraphsCaptureLeaveTheGpuWell) {
  for (const cudaError_t error : {cudaErrorStreamCaptureUnsupported,
                                  cudaErrorStreamCaptureInvalidated, cudaErrorStreamCaptureMerge,
                                  cudaErrorStreamCaptureUnmatched, cudaErrorStreamCaptureUnjoined,
                                  cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureImplicit,
                                  cudaErrorCapturedEvent, cudaErrorStreamCaptureWrongThread}) {
    EXPECT_EQ(status_of(error), Status::kUnsupported) << int{error};
    EXPECT_TRUE(is_of_capture(error)) << int{error};
  }
}

TEST(CudaErrors, OthersAreTold) {
  EXPECT_EQ(status_of(cudaSuccess), Status::kOk);
  EXPECT_EQ(status_of(cudaErrorMemoryAllocation), Status::kOutOfMemory);
  EXPECT_EQ(status_of(cudaErrorNoDevice), Status::kNoDevice);
  EXPECT_EQ(status_of(cudaErrorNoKernelImageForDevice), Status::kUnsupported);
  EXPECT_EQ(status_of(cudaErrorInvalidValue), Status::kBadArgument);
  for (const cudaError_t lost :
       {cudaErrorIllegalAddress, cudaErrorLaunchTimeout, cudaErrorUnknown}) {
    EXPECT_EQ(status_of(lost), Status::kInternal) << int{lost};
    EXPECT_FALSE(is_of_capture(lost)) << int{lost};
  }
}

}  // namespace
}  // namespace nearkv::cuda

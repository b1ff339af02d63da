// Tests of kernels on the first OpenCL device there is; without one they say so and are skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "opencl/runtime.hpp"

namespace nearkv::opencl_test {

class KernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    runtime_ = opencl::Runtime::open(0, &reason);
    if (reason.starts_with("no OpenCL device")) GTEST_SKIP() << "skipped: " << reason;
    ASSERT_NE(runtime_, nullptr) << reason;
  }

  void TearDown() override {
    if (runtime_ != nullptr) {
      EXPECT_EQ(runtime_->take_error(), CL_SUCCESS);
    }
  }

  /// The first `count` values of a buffer.
  template <typename T>
  [[nodiscard]] std::vector<T> downloaded(const cl::Buffer& buffer, std::size_t count) {
    std::vector<T> values(count);
    runtime_->download<T>(buffer, values);
    return values;
  }

  std::unique_ptr<opencl::Runtime> runtime_;
};

}  // namespace nearkv::opencl_test

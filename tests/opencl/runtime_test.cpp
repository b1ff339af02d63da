// What the runtime says when something is missing or fails, and how commands end then.
#include <array>
#include <bit>
#include <cstdlib>

#include "kernels.hpp"
#include "opencl/commands.hpp"

namespace nearkv::opencl_test {
namespace {

using opencl::Runtime;

TEST_F(KernelsTest, WhatFailsIsToldOnceAndForgotten) {
  Runtime& runtime = *runtime_;
  runtime.run("no_such_kernel", cl::NDRange(1), cl_int{0});
  std::vector<std::int32_t> untouched{7};
  runtime.download<std::int32_t>(runtime.allocate(4), untouched);
  EXPECT_EQ(untouched[0], 7);
  EXPECT_EQ(runtime.take_error(), CL_INVALID_KERNEL_NAME);
  EXPECT_EQ(runtime.take_error(), CL_SUCCESS);
  EXPECT_NE(runtime.allocate(4)(), nullptr);
}

TEST_F(KernelsTest, TheQueueTellsWhatKernelsTook) {
  Runtime& runtime = *runtime_;
  const cl::Buffer logits = runtime.upload<std::int64_t>(
      std::vector<std::int64_t>(NKV_PAGE_TOKENS, std::int64_t{5} << 16));
  const cl::Buffer visible = runtime.upload<std::uint64_t>(std::vector<std::uint64_t>{1});
  const cl::Buffer largest = runtime.allocate(sizeof(std::int64_t));
  runtime.run("page_largest", cl::NDRange(1, 1), logits, visible, largest);
  EXPECT_EQ(downloaded<std::int64_t>(largest, 1)[0], 5);
  EXPECT_EQ(runtime.times().at("page_largest").runs, 1U);
  EXPECT_GT(runtime.times().at("page_largest").device_ns, 0U);
}

// A selection over an empty list, with its results behind the query.
class FailedCommandTest : public KernelsTest {
 protected:
  model::Outcome select() {
    constexpr std::uint64_t kResult = 256;
    memory_.fill(std::byte{0x55});
    std::fill_n(memory_.begin(), kResult, std::byte{0});
    nkv_topk_command command{};
    command.opcode = NKV_OPCODE_TOPK;
    command.head_dim = 16;
    command.top_k = 4;
    command.group = 1;
    command.mode = NKV_SELECT_FULL;
    command.scale = 1;
    command.query_dtype = NKV_DTYPE_BF16;
    command.result = kResult;
    return opencl::execute(*runtime_, {.window = model::Window(memory_), .tenant = 0},
                           std::bit_cast<model::Command>(command));
  }

  [[nodiscard]] bool has_result() const { return memory_[256] != std::byte{0x55}; }

 private:
  std::array<std::byte, 1024> memory_{};
};

TEST_F(FailedCommandTest, IsInternalWritesNothingAndIsForgotten) {
  runtime_->run("no_such_kernel", cl::NDRange(1), cl_int{0});
  const model::Outcome failed = select();
  EXPECT_EQ(failed.verdict.status, NKV_STATUS_INTERNAL);
  EXPECT_EQ(failed.verdict.detail, static_cast<std::uint64_t>(-CL_INVALID_KERNEL_NAME));
  EXPECT_FALSE(has_result());
  EXPECT_EQ(select().verdict.status, NKV_STATUS_OK);
  EXPECT_TRUE(has_result());
}

TEST_F(FailedCommandTest, TellsWhenTheDeviceHasTooLittleMemory) {
  runtime_->allocate(std::size_t{1} << 50);
  EXPECT_EQ(select().verdict.status, NKV_STATUS_OUT_OF_MEMORY);
  EXPECT_FALSE(has_result());
}

TEST(RuntimeTest, NoSuchDevice) {
  std::string reason;
  EXPECT_EQ(Runtime::open(99, &reason), nullptr);
  EXPECT_NE(reason.find("no OpenCL device"), std::string::npos) << reason;
}

// Run by itself, with the loader pointed at an empty folder.
TEST(RuntimeTest, NoDriver) {
  if (std::getenv("OCL_ICD_VENDORS") == nullptr) return;
  std::string reason;
  EXPECT_EQ(Runtime::open(0, &reason), nullptr);
  EXPECT_NE(reason.find("pocl-opencl-icd"), std::string::npos) << reason;
}

}  // namespace
}  // namespace nearkv::opencl_test

// The handle, and what the C API's structures are.
#include "cuda/gpu.hpp"

namespace nearkv::test {
namespace {

using GpuTest = Gpu;

TEST_F(GpuTest, SaysWhatItIs) {
  EXPECT_NE(std::string(info_.name), "");
  EXPECT_GT(info_.multiprocessors, 0U);
  EXPECT_GE(info_.shared_bytes, 48U << 10);
}

TEST_F(GpuTest, ThereIsNoGpuOfAnyNumber) {
  for (const int ordinal : {-1, 4096}) {
    nearkv_cuda* other = nullptr;
    std::vector<char> reason(512);
    EXPECT_EQ(nearkv_cuda_open(ordinal, &other, reason.data(), reason.size()),
              NKV_STATUS_NO_DEVICE);
    EXPECT_NE(std::string(reason.data()), "");
    EXPECT_EQ(other, nullptr);
  }
}

TEST_F(GpuTest, AReasonIsCutToItsRoom) {
  nearkv_cuda* other = nullptr;
  std::vector<char> reason(8, 'x');
  EXPECT_EQ(nearkv_cuda_open(-1, &other, reason.data(), 4), NKV_STATUS_NO_DEVICE);
  EXPECT_EQ(reason[3], 0);
  EXPECT_EQ(reason[4], 'x');
  EXPECT_EQ(nearkv_cuda_open(-1, &other, nullptr, 0), NKV_STATUS_NO_DEVICE);
}

TEST_F(GpuTest, ListsItsStructures) {
  std::vector<std::uint32_t> bytes(2);
  const std::size_t count = nearkv_cuda_structures(bytes.data(), bytes.size());
  EXPECT_EQ(bytes[0], sizeof(nearkv_cuda_info));
  EXPECT_EQ(bytes[1], sizeof(nearkv_cuda_strides));
  bytes.assign(count, 0);
  EXPECT_EQ(nearkv_cuda_structures(bytes.data(), count), count);
  EXPECT_EQ(bytes.back(), sizeof(nearkv_cuda_merge_args));
}

TEST_F(GpuTest, PartsKeepTheGpuBusyAndAreNotSmall) {
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 1, 100), 1U);
  EXPECT_GT(nearkv_cuda_splits(gpu_, 1, 1 << 20), 1U);
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 1 << 20, 1 << 20), 1U);
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 0, 0), 1U);
}

}  // namespace
}  // namespace nearkv::test

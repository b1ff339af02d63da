// The handle, and what the C API's structures are.
#include "cuda/gpu.hpp"

#include <bit>
#include <fstream>

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

TEST_F(GpuTest, NoMemoryIsNotRegistered) {
  void* seen = nullptr;
  EXPECT_EQ(nearkv_cuda_register(gpu_, nullptr, 4096, &seen, nullptr), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_NE(error(), "");
}

/// Where the kernel's clock is mapped: memory that Linux marks as it does a card's.
std::uintptr_t clock_mapping() {
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    if (line.ends_with("[vvar]")) return std::stoull(line, nullptr, 16);
  }
  return 0;
}

TEST_F(GpuTest, ACardsMemoryIsToldFromTheHosts) {
  void* seen = nullptr;
  std::uint32_t path = NEARKV_CUDA_PATH_PEER;
  const std::span<std::byte> own = room<std::byte>(4096);
  if (is_emulated()) {
    ASSERT_EQ(nearkv_cuda_register(gpu_, own.data(), own.size(), &seen, &path), NKV_STATUS_OK);
    EXPECT_EQ(path, std::uint32_t{NEARKV_CUDA_PATH_HOST});
  }
  const std::uintptr_t clock = clock_mapping();
  if (clock == 0) GTEST_SKIP() << "there is no mapping here that looks like a card's";
  void* const place = std::bit_cast<void*>(clock);
  const std::uint8_t status = nearkv_cuda_register(gpu_, place, 4096, &seen, &path);
  EXPECT_EQ(path, std::uint32_t{NEARKV_CUDA_PATH_PEER});
  // A GPU's driver may not take the clock for a card, and says so.
  EXPECT_EQ(status, is_emulated() ? NKV_STATUS_OK : NKV_STATUS_UNSUPPORTED) << error();
}

TEST_F(GpuTest, PartsKeepTheGpuBusyAndAreNotSmall) {
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 1, 100), 1U);
  EXPECT_GT(nearkv_cuda_splits(gpu_, 1, 1 << 20), 1U);
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 1 << 20, 1 << 20), 1U);
  EXPECT_EQ(nearkv_cuda_splits(gpu_, 0, 0), 1U);
}

}  // namespace
}  // namespace nearkv::test

// A GPU for tests, emulated or real, and memory that its kernels reach.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nearkv_cuda.h"

namespace nearkv::test {

/// Memory of the host's that kernels reach, at a multiple of 256 bytes.
std::shared_ptr<std::byte> reachable(std::size_t bytes);

/// Waits for the kernels, whose results can then be read; fails the test if one has failed.
void synchronize();

/// Opens GPU 0; a test that has none is skipped, with the reason.
///
/// Every piece of memory is an allocation of its own, so that sanitizers see its ends.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<char> reason(512);
    const std::uint8_t status = nearkv_cuda_open(0, &gpu_, reason.data(), reason.size());
    if (status == NKV_STATUS_NO_DEVICE) GTEST_SKIP() << "no GPU: " << reason.data();
    ASSERT_EQ(status, NKV_STATUS_OK) << reason.data();
    nearkv_cuda_describe(gpu_, &info_);
  }

  void TearDown() override {
    if (gpu_ == nullptr) return;
    synchronize();
    nearkv_cuda_close(gpu_);
  }

  [[nodiscard]] bool is_emulated() const { return info_.architecture == 0; }
  [[nodiscard]] std::string error() {
    std::vector<char> text(512);
    nearkv_cuda_last_error(gpu_, text.data(), text.size());
    return text.data();
  }

  /// `count` elements whose bytes are all 0xA5, at a multiple of 256 bytes.
  template <typename T>
  std::span<T> room(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    std::byte* const place = owned_.emplace_back(reachable(bytes)).get();
    std::fill_n(place, bytes, std::byte{0xA5});
    return {reinterpret_cast<T*>(place), count};
  }
  template <typename T>
  std::span<T> stored(const std::vector<T>& values) {
    const std::span<T> place = room<T>(values.size());
    std::ranges::copy(values, place.begin());
    return place;
  }

  nearkv_cuda* gpu_ = nullptr;
  nearkv_cuda_info info_{};

 private:
  std::vector<std::shared_ptr<std::byte>> owned_;
};

}  // namespace nearkv::test

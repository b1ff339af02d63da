// A GPU for tests, emulated or real, and memory that its kernels reach.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "nearkv_cuda.h"

namespace nearkv::test {

/// Opens GPU 0; a test that has none is skipped, with the reason.
///
/// Memory is the host's, registered: what kernels write there is read here after synchronize(). Of
/// an emulated GPU every piece is an allocation of its own, so that sanitizers see its ends.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<char> reason(512);
    const std::uint8_t status = nearkv_cuda_open(0, &gpu_, reason.data(), reason.size());
    if (status == NKV_STATUS_NO_DEVICE) GTEST_SKIP() << "no GPU: " << reason.data();
    ASSERT_EQ(status, NKV_STATUS_OK) << reason.data();
    nearkv_cuda_describe(gpu_, &info_);
    if (is_emulated()) return;
    arena_ = static_cast<std::byte*>(
        ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(arena_, MAP_FAILED);
    void* seen = nullptr;
    ASSERT_EQ(nearkv_cuda_register(gpu_, arena_, kArenaBytes, &seen, nullptr), NKV_STATUS_OK)
        << error();
    ASSERT_EQ(seen, arena_) << "the GPU sees host memory elsewhere than the host does";
  }

  void TearDown() override {
    if (gpu_ == nullptr) return;
    if (arena_ != nullptr) {
      EXPECT_EQ(nearkv_cuda_synchronize(gpu_, nullptr), NKV_STATUS_OK) << error();
      EXPECT_EQ(nearkv_cuda_unregister(gpu_, arena_), NKV_STATUS_OK) << error();
      ::munmap(arena_, kArenaBytes);
    }
    nearkv_cuda_close(gpu_);
  }

  [[nodiscard]] bool is_emulated() const { return info_.architecture == 0; }
  [[nodiscard]] std::string error() {
    std::vector<char> text(512);
    nearkv_cuda_last_error(gpu_, text.data(), text.size());
    return text.data();
  }
  void synchronize() {
    ASSERT_EQ(nearkv_cuda_synchronize(gpu_, nullptr), NKV_STATUS_OK) << error();
  }

  /// `count` elements whose bytes are all 0xA5, at a multiple of 256 bytes.
  template <typename T>
  std::span<T> room(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    std::byte* const place = is_emulated() ? own(bytes) : cut(bytes);
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
  static constexpr std::size_t kArenaBytes = 128 << 20;
  static constexpr std::size_t kAlignment = 256;
  struct Free {
    void operator()(std::byte* place) const {
      ::operator delete(place, std::align_val_t{kAlignment});
    }
  };

  std::byte* own(std::size_t bytes) {
    owned_.emplace_back(static_cast<std::byte*>(
        ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t{kAlignment})));
    return owned_.back().get();
  }
  std::byte* cut(std::size_t bytes) {
    std::byte* const place = arena_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ > kArenaBytes) throw std::bad_alloc();
    return place;
  }

  std::byte* arena_ = nullptr;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte, Free>> owned_;
};

}  // namespace nearkv::test

// A device of this machine, whose memory a GPU's kernels reach.
#pragma once

#include "cuda/gpu.hpp"
#include "support/bench_device.hpp"

namespace nearkv::test {

/// cpu: and its memory, registered. Addresses are those of BenchDevice's window.
class NearGpu : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::span<std::byte> memory = bench_.device().memory();
    void* seen = nullptr;
    ASSERT_EQ(nearkv_cuda_register(gpu_, memory.data(), memory.size(), &seen, nullptr),
              NKV_STATUS_OK)
        << error();
    ASSERT_EQ(seen, memory.data());
    is_registered_ = true;
  }

  void TearDown() override {
    if (is_registered_) {
      EXPECT_EQ(nearkv_cuda_unregister(gpu_, bench_.device().memory().data()), NKV_STATUS_OK)
          << error();
    }
    Gpu::TearDown();
  }

  [[nodiscard]] nearkv_cuda_pages pages_of(const StoredList& list, std::uint8_t dtype,
                                           std::uint8_t k_form, std::uint8_t v_form) {
    nearkv_cuda_pages pages{};
    pages.window = bench_.window().data();
    pages.entries = bench_.at<nkv_page_entry>(list.page_list);
    pages.window_bytes = bench_.window().size();
    pages.count = static_cast<std::uint32_t>(list.pages());
    pages.head_dim = static_cast<std::uint16_t>(list.head_dim);
    pages.value_dim = static_cast<std::uint16_t>(list.value_dim);
    pages.dtype = dtype;
    pages.k_form = k_form;
    pages.v_form = v_form;
    return pages;
  }

  BenchDevice bench_{"cpu:?memory=64MiB&threads=1&huge=off"};

 private:
  bool is_registered_ = false;
};

}  // namespace nearkv::test

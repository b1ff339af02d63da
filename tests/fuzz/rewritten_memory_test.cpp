// A tenant that rewrites its memory while a command reads it harms nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "support/checksum.hpp"
#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"
#include "support/page_source.hpp"

namespace nearkv::test {
namespace {

constexpr std::chrono::milliseconds kTime{500};

/// Rewrites some bytes again and again, now these and now those, while it lives.
class Rewriter {
 public:
  Rewriter(std::byte* target, std::span<const std::byte> these, std::span<const std::byte> those)
      : thread_([this, target, these, those] {
          for (unsigned round = 0; !stop_.load(std::memory_order_relaxed); ++round) {
            const std::span<const std::byte> next = round % 2 == 0 ? these : those;
            std::memcpy(target, next.data(), next.size());
            // Of many lengths, so that a change comes to lie between any two reads.
            for (unsigned i = round * 7919 % 20000; i > 0; --i) {
              std::atomic_signal_fence(std::memory_order_seq_cst);
            }
          }
        }) {}
  ~Rewriter() {
    stop_ = true;
    thread_.join();
  }
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;
  Rewriter(Rewriter&&) = delete;
  Rewriter& operator=(Rewriter&&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class RewrittenMemoryTest : public testing::TestWithParam<std::string> {
 protected:
  BenchDevice bench_{GetParam()};
};

TEST_P(RewrittenMemoryTest, AnAppendOfRowsThatChangeWritesOnlyItsPage) {
  constexpr std::size_t kKeyDim = 16;
  constexpr std::size_t kValueDim = 576;
  constexpr std::size_t kStrayBytes = 16 * kValueDim * sizeof(nkv_row_exception);
  KvData data = make_kv(Shape::kGaussian, NKV_PAGE_TOKENS, kKeyDim, kValueDim, 1);
  constexpr std::uint16_t kOne = 0x3F80;
  constexpr std::uint16_t kTiny = 0x1E3C;  // 1e-20: beside ones an exception.
  std::ranges::fill(data.values, kOne);
  std::vector<std::uint16_t> fits(16 * kValueDim, kOne);
  for (std::size_t at = 0; at < fits.size(); at += kValueDim) fits[at] = kTiny;
  const std::vector<std::uint16_t> overflows(fits.size(), kTiny);

  StoredList list;
  const nkv_append_command command =
      append_command(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, 1, &list);
  nkv_page_entry entry = *bench_.at<nkv_page_entry>(command.page_list);
  entry.page = static_cast<std::uint32_t>(bench_.allocate(list.page_bytes) / NKV_PAGE_GRAIN_BYTES);
  const std::uint64_t behind = bench_.allocate(kStrayBytes);
  const Rewriter rewriter(bench_.at<std::byte>(command.values), std::as_bytes(std::span(fits)),
                          std::as_bytes(std::span(overflows)));
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (std::chrono::steady_clock::now() < end) {
    *bench_.at<nkv_page_entry>(command.page_list) = entry;
    const std::uint8_t status = bench_.run(command).status;
    ASSERT_TRUE(status == NKV_STATUS_OK || status == NKV_STATUS_PAGE_OVERFLOW) << int{status};
    const std::span<std::byte> stray(bench_.at<std::byte>(behind), kStrayBytes);
    ASSERT_EQ(std::ranges::count(stray, std::byte{0}), stray.size()) << "bytes behind the page";
  }
}

TEST_P(RewrittenMemoryTest, ACompressedPageWhoseSizeChangesIsAnError) {
  const std::uint8_t codec = best_codec(bench_.device());
  const KvData data = make_kv(Shape::kGaussian, NKV_PAGE_TOKENS, 64, 64, 1);
  const StoredList list = append(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  const std::uint32_t roomy = 2 * list.page_bytes + 4096;
  const nkv_pages_command compress = transcode_command(&bench_, list, codec, roomy, 1);
  ASSERT_EQ(bench_.run(compress).status, NKV_STATUS_OK);
  StoredList cold = list;
  cold.page_list = compress.destination;
  const std::span<std::byte> page = page_at(&bench_, cold.page_list, 0, sizeof(nkv_page_header));
  nkv_page_header right{};
  std::memcpy(&right, page.data(), page.size());
  nkv_page_header wrong = right;
  wrong.payload_bytes = 0xF0000000;  // Far beyond the window.
  const auto bytes = std::as_bytes(std::span(&wrong, 1));
  wrong.crc_hot = checksum(bytes.first(offsetof(nkv_page_header, crc_hot)));
  wrong.crc_cold =
      checksum(bytes.first(offsetof(nkv_page_header, crc_cold)).subspan(NKV_BURST_BYTES));
  const nkv_pages_command command = transcode_command(&bench_, cold, NKV_CODEC_NONE, roomy, 2);
  const Rewriter rewriter(page.data(), std::as_bytes(std::span(&right, 1)),
                          std::as_bytes(std::span(&wrong, 1)));
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (std::chrono::steady_clock::now() < end) {
    const std::uint8_t status = bench_.run(command).status;
    ASSERT_TRUE(status == NKV_STATUS_OK || status == NKV_STATUS_CORRUPT ||
                status == NKV_STATUS_ADDRESS_FAULT)
        << int{status};
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RewrittenMemoryTest, testing::ValuesIn(device_uris()),
                         device_name);

}  // namespace
}  // namespace nearkv::test

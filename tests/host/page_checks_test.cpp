// When `cpu:` compares a page with its checksums: as it comes in, and again when that is long ago.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "support/bench_device.hpp"
#include "support/devices.hpp"
#include "support/layer_rows.hpp"
#include "support/page_shape.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSequence = 7;
constexpr std::size_t kTokens = 3 * NKV_PAGE_TOKENS;
constexpr const char* kNever = "cpu:?memory=16MiB&threads=2&verify=100000";

/// Flips a bit of a page's first value row.
void flip_value_bit(std::byte* page) {
  nkv_page_header header{};
  std::memcpy(&header, page, sizeof(header));
  const nkv_page_shape shape = shape_of(header);
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  page[layout.offset[NKV_PAGE_ARRAY_V_ROWS]] ^= std::byte{1};
}

class PageChecksTest : public testing::Test {
 protected:
  void open(const std::string& uri) {
    device_ = open_or_throw(uri);
    pool_ = create_or_throw(device_, small_pool());
    append_rows();
  }

  void append_rows() {
    ASSERT_EQ(pool_->create_sequence(kSequence), Status::kOk);
    ASSERT_EQ(append(pool_.get(), kSequence, 0, rows_, 0, kTokens), Status::kOk)
        << pool_->last_error();
  }

  /// The second page of the KV head that attend() asks for.
  [[nodiscard]] std::byte* page() const {
    std::uint64_t list = 0;
    std::uint32_t tokens = 0;
    EXPECT_EQ(pool_->page_list(kSequence, 0, 0, &list, &tokens), Status::kOk);
    nkv_page_entry entry{};
    std::memcpy(&entry, device_->memory().data() + list + sizeof(entry), sizeof(entry));
    return device_->memory().data() + std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
  }

  void damage_values() const { flip_value_bit(page()); }

  Status attend() {
    std::vector<float> output(kDim);
    float lse = 0;
    AttendRequest request;
    request.sequence = kSequence;
    request.rows = 1;
    request.query = std::as_bytes(std::span(query_));
    request.output = output;
    request.lse = std::span(&lse, 1);
    AttendOptions options;
    options.scale = 0.125F;
    return pool_->attend(std::span(&request, 1), options);
  }

  LayerRows rows_{kTokens, 3};
  std::vector<std::uint16_t> query_ = make_queries(rows_.heads[0], 1, 3.0, 9);
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PageChecksTest, DamageBeforeTheFirstUseIsFoundByIt) {
  open(kNever);
  damage_values();
  EXPECT_EQ(attend(), Status::kCorrupt);
  EXPECT_EQ(attend(), Status::kCorrupt) << "a failed comparison has counted";
}

TEST_F(PageChecksTest, APageInTheSamePlaceIsAnotherPage) {
  open(kNever);
  ASSERT_EQ(attend(), Status::kOk);
  const std::byte* const place = page();
  ASSERT_EQ(pool_->drop(kSequence), Status::kOk);
  append_rows();
  ASSERT_EQ(page(), place) << "the test needs the freed place to be taken again";
  damage_values();
  EXPECT_EQ(attend(), Status::kCorrupt);
}

TEST_F(PageChecksTest, DamageIsFoundWithinTheStatedTime) {
  open("cpu:?memory=16MiB&threads=2&verify=1");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(attend(), Status::kOk);
  damage_values();
  Status status = Status::kOk;
  while (status == Status::kOk && std::chrono::steady_clock::now() - start < 10s) {
    status = attend();
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status, Status::kCorrupt);
  EXPECT_GT(pool_->usage().oldest_check, 0ns);
  EXPECT_LE(pool_->usage().oldest_check, 1s);
}

TEST_F(PageChecksTest, WhatAScrubHasFoundIsNotUsedAgain) {
  open(kNever);
  ASSERT_EQ(attend(), Status::kOk);
  damage_values();
  std::uint64_t pages = 0;
  EXPECT_EQ(pool_->scrub(kSequence, &pages), Status::kCorrupt);
  EXPECT_EQ(attend(), Status::kCorrupt);
}

TEST_F(PageChecksTest, AResetDeviceComparesAgain) {
  open(kNever);
  ASSERT_EQ(attend(), Status::kOk);
  damage_values();
  ASSERT_EQ(attend(), Status::kOk) << "compared without need";
  device_->write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  pool_.reset();
  std::string reason;
  ASSERT_EQ(Pool::open(device_, small_pool(), &pool_, &reason), Status::kOk) << reason;
  EXPECT_EQ(attend(), Status::kCorrupt);
}

TEST_F(PageChecksTest, AlwaysIsAtEachUse) {
  open("cpu:?memory=16MiB&threads=2&verify=always");
  ASSERT_EQ(attend(), Status::kOk);
  damage_values();
  EXPECT_EQ(attend(), Status::kCorrupt);
  EXPECT_EQ(pool_->usage().oldest_check, 0ns);
}

TEST(PublishedPageTest, IsComparedEvenIfItIsTheSameAgain) {
  BenchDevice bench(kNever);
  const KvData data = make_kv(Shape::kTopics, NKV_PAGE_TOKENS, 64, 64, 5);
  StoredList list;
  const nkv_append_command append =
      append_command(&bench, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW, 1, &list);
  const nkv_attend_command attend = attend_command(&bench, list, make_queries(data, 1, 3.0, 6));
  ASSERT_EQ(bench.run(append).status, NKV_STATUS_OK);
  ASSERT_EQ(bench.run(attend).status, NKV_STATUS_OK);
  ASSERT_EQ(bench.run(append).status, NKV_STATUS_OK);
  const std::uint64_t page = bench.at<nkv_page_entry>(list.page_list)->page;
  flip_value_bit(bench.at<std::byte>(page * NKV_PAGE_GRAIN_BYTES));
  EXPECT_EQ(bench.run(attend).status, NKV_STATUS_CORRUPT);
}

TEST(PageChecksUriTest, RefusesOtherTimes) {
  for (const std::string value : {"0", "-1", "never", "1.5", "99999999999"}) {
    std::unique_ptr<Device> device;
    std::string reason;
    EXPECT_EQ(open_device("cpu:?memory=16MiB&verify=" + value, &device, &reason), Status::kBadUri);
    EXPECT_NE(reason.find("verify=" + value), std::string::npos) << reason;
  }
}

}  // namespace
}  // namespace nearkv::test

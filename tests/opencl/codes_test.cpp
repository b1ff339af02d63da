// Codes on ocl:, which serves pages by their rows alone: what makes codes or reads by them is
// UNSUPPORTED, pages with codes are BAD_PAGE, memory stays as it was, and registers say the same.
#include <algorithm>
#include <string>
#include <vector>

#include "parity/device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint16_t kDim = 64;
constexpr std::uint32_t kPages = 3;
constexpr std::uint32_t kRoom = 1 << 16;

class OpenclCodesTest : public testing::Test {
 protected:
  OpenclCodesTest() {
    pair_.allocate(4096);
    for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
      list_ = append(bench, data_, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
      codes_ = append_command(bench, data_, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
      codes_.flags = NKV_APPEND_FLAG_CODES;
      codes_.page_list = with_gains(bench);
    }
    pair_.expect_same_memory();
  }

  /// Entries with room for pages with codes, and a gain for each channel behind them.
  static std::uint64_t with_gains(BenchDevice* bench) {
    std::vector<nkv_page_entry> entries(kPages);
    for (nkv_page_entry& entry : entries) {
      entry.page = static_cast<std::uint32_t>(bench->allocate(kRoom) / NKV_PAGE_GRAIN_BYTES);
    }
    const auto listed = std::as_bytes(std::span(entries));
    std::vector<std::byte> bytes(listed.begin(), listed.end());
    bytes.resize(bytes.size() + kDim);
    return bench->store(std::span<const std::byte>(bytes));
  }

  /// Runs a command on ocl: alone, which is to leave memory as it was.
  template <typename Command>
  void expect_refused(const std::string& name, const Command& command, std::uint8_t status,
                      std::uint64_t detail) {
    SCOPED_TRACE(name);
    const std::span<std::byte> memory = pair_.subject().allocated();
    const std::vector<std::byte> before(memory.begin(), memory.end());
    const nkv_completion done = pair_.subject().run(command);
    EXPECT_EQ(done.status, status) << describe(done);
    EXPECT_EQ(done.detail, detail);
    EXPECT_EQ(done.stream_bursts, 0U);
    EXPECT_TRUE(std::ranges::equal(memory, before)) << "memory was written";
  }

  [[nodiscard]] nkv_read_command read_of_codes() const {
    nkv_read_command command{};
    command.opcode = NKV_OPCODE_READ;
    command.flags = NKV_READ_FLAG_CODES;
    command.tensor = NKV_TENSOR_KEYS;
    command.planes = 1;
    command.count = kPages * NKV_PAGE_TOKENS;
    command.page_list = list_.page_list;
    return command;
  }

  DevicePair pair_{"ocl:", "4MiB"};
  KvData data_ = make_kv(Shape::kTopics, kPages* NKV_PAGE_TOKENS, kDim, kDim, /*seed=*/5);
  std::vector<std::uint16_t> queries_ = make_queries(data_, 3, 3.0, /*seed=*/6);
  StoredList list_;  ///< Of pages without codes.
  nkv_append_command codes_{};
};

TEST_F(OpenclCodesTest, WhatNeedsCodesIsUnsupported) {
  const auto expect_unsupported = [this](const std::string& name, const auto& command) {
    expect_refused(name, command, NKV_STATUS_UNSUPPORTED, 0);
  };
  expect_unsupported("APPEND", codes_);
  expect_unsupported("READ", read_of_codes());
  BenchDevice& bench = pair_.subject();
  expect_unsupported("TOPK STATISTICAL",
                     topk_command(&bench, list_, queries_, 8, NKV_SELECT_STATISTICAL));
  nkv_attend_command attend = attend_command(&bench, list_, queries_);
  attend.error = 0.1F;
  for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    attend.mode = mode;
    expect_unsupported("ATTEND mode " + std::to_string(mode), attend);
  }
}

TEST_F(OpenclCodesTest, AFieldThatIsWrongIsToldFirst) {
  nkv_append_command append = codes_;
  append.tokens = 1;
  expect_refused("APPEND", append, NKV_STATUS_BAD_FIELD, offsetof(nkv_append_command, tokens));
  nkv_topk_command topk =
      topk_command(&pair_.subject(), list_, queries_, 8, NKV_SELECT_STATISTICAL);
  topk.group = 0;
  expect_refused("TOPK", topk, NKV_STATUS_BAD_FIELD, offsetof(nkv_topk_command, group));
}

TEST_F(OpenclCodesTest, PagesWithCodesAreBad) {
  // The model makes them, on both.
  ASSERT_EQ(pair_.run(codes_).model.status, NKV_STATUS_OK);
  ASSERT_EQ(pair_.not_offered(), 1U);
  const auto coded = *pair_.model().at<nkv_page_entry>(codes_.page_list);
  pair_.write(list_.page_list, std::as_bytes(std::span(&coded, 1)));
  page_commands(&pair_.model(), list_, queries_, NKV_CODEC_INT8);
  for (const PageCommand& command :
       page_commands(&pair_.subject(), list_, queries_, NKV_CODEC_INT8)) {
    expect_refused(command.name, command.bytes, NKV_STATUS_BAD_PAGE, 0);
    // Some of them take the pages away from those that follow.
    const std::span<std::byte> memory = pair_.model().allocated();
    const std::vector<std::byte> before(memory.begin(), memory.end());
    EXPECT_NE(pair_.model().run(command.bytes).status, NKV_STATUS_BAD_PAGE) << command.name;
    std::ranges::copy(before, memory.begin());
  }
}

TEST_F(OpenclCodesTest, FeaturesSayIt) {
  Device& device = pair_.subject().device();
  EXPECT_FALSE(offers_feature(device, NKV_FEATURE_CODE_PAGES));
  EXPECT_FALSE(offers_feature(device, NKV_FEATURE_CODES));
  EXPECT_TRUE(offers_feature(device, NKV_FEATURE_INDEXER));
  EXPECT_TRUE(offers_feature(device, NKV_FEATURE_TRANSCODE));
}

}  // namespace
}  // namespace nearkv::test

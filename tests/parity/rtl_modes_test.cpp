// What is done by codes: the engine, which makes them and serves pages by their rows alone, says
// UNSUPPORTED, whatever else the command holds, reads no page and writes nothing. Registers say the
// same.
#include <algorithm>
#include <cstring>
#include <vector>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint16_t kDim = 64;
constexpr std::uint32_t kRoom = 1 << 16;  // Of a page with codes.

class RtlModesTest : public testing::Test {
 protected:
  RtlModesTest() {
    pair_.allocate(4096);
    const KvData data = make_kv(Shape::kTopics, 3 * NKV_PAGE_TOKENS, kDim, kDim, 5);
    const std::vector<std::uint16_t> queries = make_queries(data, 3, 3.0, 6);
    for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
      const StoredList list = append(bench, data);
      topk_ = topk_command(bench, list, queries, 8, NKV_SELECT_FULL);
      attend_ = attend_command(bench, list, queries);
      plain_ = list.page_list;
      append_ = append_command(bench, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
      append_.flags = NKV_APPEND_FLAG_CODES;
      append_.page_list = with_gains(bench, append_);
      read_.opcode = NKV_OPCODE_READ;
      read_.tensor = NKV_TENSOR_KEYS;
      read_.count = static_cast<std::uint32_t>(list.tokens);
      read_.page_list = list.page_list;
      read_.result = bench->allocate(list.tokens * 2 * kDim);
    }
    pair_.expect_same_memory();
  }

  /// Entries with room for pages with codes, and a gain for each channel behind them.
  static std::uint64_t with_gains(BenchDevice* bench, const nkv_append_command& command) {
    std::vector<nkv_page_entry> entries(command.tokens / NKV_PAGE_TOKENS);
    for (nkv_page_entry& entry : entries) {
      entry.page = static_cast<std::uint32_t>(bench->allocate(kRoom) / NKV_PAGE_GRAIN_BYTES);
    }
    std::vector<std::byte> bytes(entries.size() * sizeof(nkv_page_entry) + command.head_dim);
    std::memcpy(bytes.data(), entries.data(), entries.size() * sizeof(nkv_page_entry));
    return bench->store(std::span<const std::byte>(bytes));
  }

  /// The status and detail of the engine, which leaves memory as it was; the model does it.
  template <typename Command>
  void expect_unsupported(const std::string& name, const Command& command) {
    SCOPED_TRACE(name);
    const std::span<std::byte> memory = pair_.subject().allocated();
    const std::vector<std::byte> before(memory.begin(), memory.end());
    const nkv_completion done = pair_.subject().run(command);
    EXPECT_EQ(done.status, NKV_STATUS_UNSUPPORTED) << describe(done);
    EXPECT_EQ(done.detail, 0U);
    EXPECT_EQ(done.count, 0U);
    EXPECT_EQ(done.stream_bursts, 0U);
    EXPECT_TRUE(std::ranges::equal(memory, before)) << "memory was written";
    EXPECT_EQ(pair_.model().run(command).status, NKV_STATUS_OK);
  }

  DevicePair pair_{"rtl:?latency=20", "4MiB"};
  nkv_topk_command topk_{};
  nkv_attend_command attend_{};
  nkv_read_command read_{};
  nkv_append_command append_{};  ///< With codes.
  std::uint64_t plain_ = 0;      ///< Entries of pages without.
};

TEST_F(RtlModesTest, WhatNeedsMoreThanRowsIsUnsupported) {
  EXPECT_EQ(pair_.expect_same(append_).status, NKV_STATUS_OK);
  nkv_topk_command statistical = topk_;
  statistical.mode = NKV_SELECT_STATISTICAL;
  expect_unsupported("TOPK STATISTICAL", statistical);
  for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
    nkv_attend_command command = attend_;
    command.mode = mode;
    command.error = mode == NKV_ATTEND_MODE_BOUNDED ? 0.1F : 0.0F;
    expect_unsupported("ATTEND mode " + std::to_string(mode), command);
  }
  nkv_read_command codes = read_;
  codes.page_list = append_.page_list;
  codes.flags = NKV_READ_FLAG_CODES;
  codes.planes = 2;
  expect_unsupported("READ of codes", codes);
}

// The pages before it are done, as before any page that fails.
TEST_F(RtlModesTest, TranscodeEndsAtAPageWithCodes) {
  ASSERT_EQ(pair_.expect_same(append_).status, NKV_STATUS_OK);
  const auto* const plain = pair_.model().at<nkv_page_entry>(plain_);
  const auto* const coded = pair_.model().at<nkv_page_entry>(append_.page_list);
  const std::vector<nkv_page_entry> sources{plain[0], coded[1], plain[2]};
  std::vector<nkv_page_entry> destinations(sources.size());
  for (nkv_page_entry& entry : destinations) {
    entry.page = static_cast<std::uint32_t>(pair_.allocate(kRoom) / NKV_PAGE_GRAIN_BYTES);
  }
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_TRANSCODE;
  command.slot_bytes = kRoom;
  command.source = pair_.store(std::span<const nkv_page_entry>(sources));
  command.destination = pair_.store(std::span<const nkv_page_entry>(destinations));
  command.result = pair_.allocate(sources.size() * sizeof(std::uint32_t));
  for (const std::uint8_t codec : {NKV_CODEC_INT8, NKV_CODEC_NONE}) {
    command.codec = codec;
    command.count = static_cast<std::uint32_t>(sources.size());
    const nkv_completion done = pair_.subject().run(command);
    EXPECT_EQ(done.status, NKV_STATUS_UNSUPPORTED) << describe(done);
    EXPECT_EQ(done.detail, 1U);
    EXPECT_EQ(done.count, 1U);
    command.count = 1;
    EXPECT_EQ(pair_.model().run(command).status, NKV_STATUS_OK);
    pair_.expect_same_memory();
  }
}

TEST_F(RtlModesTest, WhatIsWrongWithSuchACommandIsToldFirst) {
  nkv_topk_command topk = topk_;
  topk.mode = NKV_SELECT_STATISTICAL;
  topk.group = 9;
  nkv_attend_command attend = attend_;
  attend.mode = NKV_ATTEND_MODE_TAIL;
  attend.scale = 0;
  nkv_read_command read = read_;
  read.planes = 1;
  const auto expect_field = [](const nkv_completion& done, std::size_t offset) {
    EXPECT_EQ(done.status, NKV_STATUS_BAD_FIELD) << describe(done);
    EXPECT_EQ(done.detail, offset);
  };
  expect_field(pair_.subject().run(topk), offsetof(nkv_topk_command, group));
  expect_field(pair_.subject().run(attend), offsetof(nkv_attend_command, scale));
  expect_field(pair_.subject().run(read), offsetof(nkv_read_command, planes));
}

TEST_F(RtlModesTest, TheOtherModesAreTheModelsBeforeAndAfter) {
  const auto expect_others = [this] {
    pair_.expect_same(topk_);
    pair_.expect_same(attend_);
    pair_.expect_same(read_);
    pair_.expect_same(append_);
  };
  expect_others();
  nkv_attend_command tail = attend_;
  tail.mode = NKV_ATTEND_MODE_TAIL;
  pair_.run(tail);
  EXPECT_EQ(pair_.not_offered(), 1U);
  expect_others();
  EXPECT_EQ(pair_.not_offered(), 1U);
}

TEST_F(RtlModesTest, FeaturesSayIt) {
  Device& device = pair_.subject().device();
  EXPECT_FALSE(offers_feature(device, NKV_FEATURE_CODES));
  for (const std::uint64_t feature :
       {NKV_FEATURE_INDEXER, NKV_FEATURE_TRANSCODE, NKV_FEATURE_CODE_PAGES}) {
    EXPECT_TRUE(offers_feature(device, feature)) << feature;
  }
}

}  // namespace
}  // namespace nearkv::test

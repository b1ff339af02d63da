// Long lists, and one as long as the engine takes: the model's bits from every command.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include "sequences.hpp"
#include "support/environment.hpp"

namespace nearkv::test {
namespace {

/// Tokens of the longest list that the device takes.
std::uint32_t most_tokens(DevicePair& pair) {
  const std::uint64_t limits = pair.subject().device().read_csr(NKV_REG_LIMITS);
  return std::uint32_t{1} << (limits >> NKV_REG_LIMITS_TOKENS_LOG2_SHIFT & 0xFF);
}

/// More than an index of 11 bits reaches.
constexpr std::uint32_t kLongPages = 2048 + 150;

class LongListParityTest : public testing::Test {
 protected:
  static constexpr std::uint16_t kDim = 16;  // Narrow rows: what counts here are tokens and pages.
  static constexpr std::uint16_t kTopK = 256;
  static constexpr std::uint8_t kRows = 8;

  LongListParityTest() : random_(case_random(13000)) {}

  void open(const std::string& uri, const std::string& memory) {
    pair_ = std::make_unique<DevicePair>(uri, memory);
  }
  DevicePair& pair() { return *pair_; }

  void append(std::uint32_t pages) {
    tokens_ = pages * NKV_PAGE_TOKENS;
    list_ = append_to_both(pair(), {NKV_DTYPE_BF16, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW, kDim, kDim},
                           pages, Content::kNormal, random_);
    ASSERT_EQ(list_.completion.status, NKV_STATUS_OK);
    ASSERT_EQ(pair().not_offered(), 0U);
  }

  template <typename Command>
  Command over_list(std::uint8_t opcode, std::uint8_t mode) {
    Command command{};
    command.opcode = opcode;
    command.mode = mode;
    command.head_dim = kDim;
    command.tokens = tokens_;
    command.page_list = list_.page_list;
    command.group = kRows;
    command.query_dtype = NKV_DTYPE_FP32;
    command.query = store_rows(pair(), random_queries(list_, NKV_DTYPE_FP32, kRows, random_));
    command.scale = 1 / std::sqrt(static_cast<float>(kDim));
    command.result = pair().allocate(kRows * kTopK * 8 + 3 * NKV_BURST_BYTES * 16);
    return command;
  }

  nkv_topk_command topk(std::uint8_t mode) {
    auto command = over_list<nkv_topk_command>(NKV_OPCODE_TOPK, mode);
    command.top_k = kTopK;
    if (mode == NKV_SELECT_INDEXER) {
      command.weights = pair().store(std::span<const float>(std::vector<float>(kRows, 0.5F)));
    }
    return command;
  }

  nkv_attend_command attend() {
    auto command = over_list<nkv_attend_command>(NKV_OPCODE_ATTEND, NKV_ATTEND_MODE_DENSE);
    command.value_dim = kDim;
    return command;
  }

  template <typename Command>
  void expect_same(const std::string& name, const Command& command) {
    SCOPED_TRACE(name);
    const DevicePair::Completions done = pair().run(command);
    EXPECT_EQ(done.model.status, NKV_STATUS_OK);
    EXPECT_EQ(describe(done.subject), describe(done.model));
    EXPECT_EQ(pair().not_offered(), 0U);
    pair().expect_same_memory();
    std::printf("  %-16s %9llu cycles\n", name.c_str(),
                static_cast<unsigned long long>(done.subject.ticks));
  }

  void expect_same_of_every_command();

  Random random_;
  std::uint32_t tokens_ = 0;
  ListOnBoth list_;

 private:
  std::unique_ptr<DevicePair> pair_;
};

void LongListParityTest::expect_same_of_every_command() {
  std::printf("  %u tokens\n", tokens_);
  expect_same("TOPK FULL", topk(NKV_SELECT_FULL));
  expect_same("TOPK INDEXER", topk(NKV_SELECT_INDEXER));
  expect_same("ATTEND DENSE", attend());
  // A window at the end, whose pages' places have the upper bits set.
  nkv_topk_command window = topk(NKV_SELECT_FULL);
  window.tokens = tokens_ - 3;
  window.window = 5000;
  window.sinks = 7;
  expect_same("a window", window);

  nkv_gather_command gather{};
  gather.opcode = NKV_OPCODE_GATHER;
  gather.tensor = NKV_TENSOR_BOTH;
  gather.tokens = tokens_;
  std::vector<std::uint32_t> ids{tokens_ - 1, 0, tokens_ / 2, tokens_ / 4, tokens_ / 4 - 1};
  while (ids.size() < 100) ids.push_back(static_cast<std::uint32_t>(random_() % tokens_));
  gather.count = static_cast<std::uint32_t>(ids.size());
  gather.ids = pair().store(std::span<const std::uint32_t>(ids));
  gather.page_list = list_.page_list;
  gather.result = pair().allocate(ids.size() * 4 * kDim);
  expect_same("GATHER", gather);
  // Of another set of pages, so that none is taken for one of those before.
  gather.count = 3;
  expect_same("GATHER of fewer", gather);
  nkv_read_command read{};
  read.opcode = NKV_OPCODE_READ;
  read.tensor = NKV_TENSOR_BOTH;
  read.first = tokens_ - 1000;
  read.count = 1000;
  read.page_list = list_.page_list;
  read.result = pair().allocate(std::uint64_t{read.count} * 4 * kDim);
  expect_same("READ", read);
  std::vector<nkv_page_entry> places(list_.pages());
  for (nkv_page_entry& place : places) {
    place.page =
        static_cast<std::uint32_t>(pair().allocate(list_.page_bytes) / NKV_PAGE_GRAIN_BYTES);
  }
  nkv_pages_command copy{};
  copy.opcode = NKV_OPCODE_COPY;
  copy.count = list_.pages();
  copy.source = list_.page_list;
  copy.destination = pair().store(std::span<const nkv_page_entry>(places));
  expect_same("COPY", copy);
}

TEST_F(LongListParityTest, EveryCommandTakesALongList) {
  const auto pages = static_cast<std::uint32_t>(by_size(kLongPages, 16384));
  open("rtl:?latency=60", pages > kLongPages ? "512MiB" : "96MiB");
  append(pages);
  if (HasFatalFailure()) return;
  expect_same_of_every_command();
  if (tokens_ != most_tokens(pair())) return;
  nkv_topk_command longer = topk(NKV_SELECT_FULL);
  ++longer.tokens;
  const nkv_completion done = pair().subject().run(longer);
  EXPECT_EQ(done.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(done.detail, offsetof(nkv_topk_command, tokens));
}

// Sorting them takes longer than the watchdog waits for memory. Two of them meet, which is seen at
// the end only: no page has been written by then.
TEST_F(LongListParityTest, PlacesInAnyOrderAreJudgedToTheEnd) {
  constexpr std::uint32_t kEntries = 16384;
  open("rtl:?latency=60", "128MiB");
  append(1);
  if (HasFatalFailure()) return;
  std::vector<nkv_page_entry> entries(kEntries);
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(pair().allocate(list_.page_bytes) / NKV_PAGE_GRAIN_BYTES);
  }
  std::ranges::reverse(entries);
  entries.back().page = entries.front().page;
  const auto expect_refused = [this](const auto& command, std::size_t field) {
    const DevicePair::Completions done = pair().run(command);
    EXPECT_EQ(describe(done.subject), describe(done.model));
    EXPECT_EQ(done.subject.status, NKV_STATUS_BAD_FIELD);
    EXPECT_EQ(done.subject.detail, field);
    EXPECT_EQ(pair().subject().device().read_csr(NKV_REG_DEVICE_STATUS),
              NKV_REG_DEVICE_STATUS_READY_MASK);
  };
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.v_form = NKV_ROW_FORM_NONE;
  append.head_dim = kDim;
  append.key_stride = 1;
  append.tokens = kEntries * NKV_PAGE_TOKENS;
  append.keys = pair().allocate(append.tokens + 2 * kDim);
  append.page_list = pair().store(std::span<const nkv_page_entry>(entries));
  expect_refused(append, offsetof(nkv_append_command, page_list));
  // The same page over and over.
  const nkv_page_entry page = *pair().model().at<nkv_page_entry>(list_.page_list);
  const std::vector<nkv_page_entry> sources(kEntries, page);
  nkv_pages_command copy{};
  copy.opcode = NKV_OPCODE_COPY;
  copy.count = kEntries;
  copy.source = pair().store(std::span<const nkv_page_entry>(sources));
  copy.destination = append.page_list;
  expect_refused(copy, offsetof(nkv_pages_command, destination));
}

// Its entries are taken up in parts, of as many as the engine keeps: here all of the same page, but
// for the last.
TEST_F(LongListParityTest, ScrubGoesOnBehindThePagesThatAreKept) {
  constexpr std::uint32_t kEntries = 16384 + 6;
  open("rtl:?latency=60", "8MiB");
  append(2);
  if (HasFatalFailure()) return;
  const nkv_page_entry* const listed = pair().model().at<nkv_page_entry>(list_.page_list);
  std::vector<nkv_page_entry> entries(kEntries, listed[0]);
  entries.back() = listed[1];
  nkv_pages_command scrub{};
  scrub.opcode = NKV_OPCODE_SCRUB;
  scrub.count = kEntries;
  scrub.source = pair().store(std::span<const nkv_page_entry>(entries));
  // A row's byte: the checksum of its array is wrong.
  const std::uint64_t page = std::uint64_t{listed[1].page} * NKV_PAGE_GRAIN_BYTES;
  for (BenchDevice* const device : {&pair().model(), &pair().subject()}) {
    *device->at<std::uint8_t>(page + NKV_PAGE_HEADER_BYTES) ^= 1;
  }
  const DevicePair::Completions done = pair().run(scrub);
  EXPECT_EQ(describe(done.subject), describe(done.model));
  EXPECT_EQ(done.subject.status, NKV_STATUS_CORRUPT);
  EXPECT_EQ(done.subject.detail, kEntries - 1);
}

}  // namespace
}  // namespace nearkv::test

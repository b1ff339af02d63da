// APPEND, READ and GATHER: the same pages and the same rows, bit for bit.
#include <algorithm>
#include <array>

#include "sequences.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

std::uint64_t rows_bytes(const ListShape& shape, std::uint32_t count) {
  const std::uint64_t row_bytes =
      std::uint64_t{shape.head_dim} + std::uint64_t{shape.value_dim} + 2 * NKV_BURST_BYTES;
  return count * row_bytes * 2 + 2 * NKV_BURST_BYTES;
}

void expect_same_reads(DevicePair& pair, const ListOnBoth& list, Random& random) {
  nkv_read_command read{};
  read.opcode = NKV_OPCODE_READ;
  read.page_list = list.page_list;
  read.result = pair.allocate(rows_bytes(list.shape, list.tokens));
  nkv_gather_command gather{};
  gather.opcode = NKV_OPCODE_GATHER;
  gather.page_list = list.page_list;
  gather.tokens = list.tokens;
  gather.result = read.result;
  for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES, NKV_TENSOR_BOTH}) {
    read.tensor = gather.tensor = tensor;
    read.first = pick(random, 0, list.tokens - 1);
    read.count = pick(random, 1, list.tokens - read.first);
    pair.expect_same(read);
    std::vector<std::uint32_t> ids(pick(random, 1, list.tokens));
    for (std::uint32_t& id : ids) id = pick(random, 0, list.tokens - 1);
    gather.count = static_cast<std::uint32_t>(ids.size());
    gather.ids = pair.store(std::span<const std::uint32_t>(ids));
    pair.expect_same(gather);
  }
}

TEST_P(ParityTest, PagesAndRowsAreTheSame) {
  DevicePair pair(GetParam());
  for (std::uint64_t number = 0; number < 250; number += test_every()) {
    Random random = case_random(number);
    const auto content = static_cast<Content>(number % 5);
    const ListShape shape = random_shape(random, false);
    SCOPED_TRACE(case_name(number) + ": " + shape.name() + ", content " +
                 std::to_string(number % 5));
    pair.clear();
    const ListOnBoth list = append_to_both(pair, shape, pick(random, 1, 4), content, random);
    if (list.completion.status == NKV_STATUS_OK) expect_same_reads(pair, list, random);
    if (HasFailure()) break;
  }
}

TEST_P(ParityTest, CommonShapesOfModelsAreTheSame) {
  DevicePair pair(GetParam());
  std::uint64_t number = 1000;
  for (const std::uint16_t dim : std::array<std::uint16_t, 6>{64, 80, 96, 128, 256, 576}) {
    for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
      for (const Content content : {Content::kNormal, Content::kZeros, Content::kSpecials}) {
        Random random = case_random(++number);
        SCOPED_TRACE(case_name(number) + ": dim " + std::to_string(dim));
        ListShape shape{NKV_DTYPE_BF16, form, form, dim, dim};
        if (dim == 576) {
          shape.v_form = NKV_ROW_FORM_NONE;
          shape.value_dim = 512;
        }
        pair.clear();
        const ListOnBoth list = append_to_both(pair, shape, 3, content, random);
        EXPECT_TRUE(content != Content::kNormal || list.completion.status == NKV_STATUS_OK);
        if (list.completion.status == NKV_STATUS_OK) expect_same_reads(pair, list, random);
      }
    }
  }
}

/// Every way to have rows from codes.
void expect_same_codes(DevicePair& pair, const ListOnBoth& list, Random& random) {
  nkv_read_command read{};
  read.opcode = NKV_OPCODE_READ;
  read.flags = NKV_READ_FLAG_CODES;
  read.page_list = list.page_list;
  read.result = pair.allocate(rows_bytes(list.shape, list.tokens));
  for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES, NKV_TENSOR_BOTH}) {
    read.tensor = tensor;
    for (read.planes = 0; read.planes <= NKV_KEY_CODE_PLANES; ++read.planes) {
      read.first = pick(random, 0, list.tokens - 1);
      read.count = pick(random, 1, std::min(list.tokens - read.first, 24U));
      pair.expect_same(read);
    }
  }
}

/// Copied, compressed and attendable again, with their codes.
void expect_same_moves(DevicePair& pair, const ListOnBoth& list, Random& random) {
  nkv_pages_command command{};
  command.source = list.page_list;
  command.count = list.pages();
  command.opcode = NKV_OPCODE_SCRUB;
  EXPECT_EQ(pair.expect_same(command).status, NKV_STATUS_OK);
  for (const std::uint8_t codec : {NKV_CODEC_NONE, NKV_CODEC_PLANES_LZ4, NKV_CODEC_NONE}) {
    std::vector<nkv_page_entry> entries(command.count);
    for (nkv_page_entry& entry : entries) {
      entry.page = static_cast<std::uint32_t>(pair.allocate(1 << 19) / NKV_PAGE_GRAIN_BYTES);
      entry.generation = static_cast<std::uint16_t>(random());
    }
    command.opcode = command.source == list.page_list ? NKV_OPCODE_COPY : NKV_OPCODE_TRANSCODE;
    command.codec = codec;
    command.slot_bytes = command.opcode == NKV_OPCODE_TRANSCODE ? 1 << 19 : 0;
    command.destination = pair.store(std::span<const nkv_page_entry>(entries));
    command.result = pair.allocate(command.count * sizeof(std::uint32_t));
    EXPECT_EQ(pair.expect_same(command).status, NKV_STATUS_OK);
    command.source = command.destination;
  }
}

/// Appends, and where that succeeds reads and moves.
void expect_same_coded_pages(DevicePair& pair, const ListShape& shape, std::uint32_t pages,
                             Content content, Random& random) {
  pair.clear();
  const ListOnBoth list = append_to_both(pair, shape, pages, content, random);
  if (list.completion.status != NKV_STATUS_OK) return;
  expect_same_reads(pair, list, random);
  expect_same_codes(pair, list, random);
  expect_same_moves(pair, list, random);
}

constexpr const char* kNoCodes = "skipped: this device makes no pages with codes (FEATURES)";

TEST_P(ParityTest, PagesWithCodesAreTheSame) {
  DevicePair pair(GetParam());
  if (!offers_feature(pair.subject().device(), NKV_FEATURE_CODE_PAGES)) GTEST_SKIP() << kNoCodes;
  for (std::uint64_t number = 2000; number < 2060; number += test_every()) {
    Random random = case_random(number);
    ListShape shape = random_shape(random, false);
    shape.codes = true;
    SCOPED_TRACE(case_name(number) + ": " + shape.name());
    expect_same_coded_pages(pair, shape, pick(random, 1, 4), static_cast<Content>(number % 6),
                            random);
    if (HasFailure()) break;
  }
}

TEST_P(ParityTest, CodesOfEveryKindOfWidthAreTheSame) {
  DevicePair pair(GetParam());
  if (!offers_feature(pair.subject().device(), NKV_FEATURE_CODE_PAGES)) GTEST_SKIP() << kNoCodes;
  std::uint64_t number = 3000;
  for (const std::uint16_t dim :
       std::array<std::uint16_t, 12>{16, 32, 48, 64, 96, 112, 128, 192, 256, 512, 560, 576}) {
    for (const Content content : {Content::kNormal, Content::kZeros, Content::kSpecials,
                                  Content::kEqual, Content::kWild, Content::kClose}) {
      Random random = case_random(++number);
      const ListShape shape{.head_dim = dim, .value_dim = dim, .codes = true};
      SCOPED_TRACE(case_name(number) + ": " + shape.name());
      expect_same_coded_pages(pair, shape, 2, content, random);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ParityTest, testing::ValuesIn(subject_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

// APPEND, READ and GATHER: the same pages and the same rows, bit for bit.
#include <array>

#include "sequences.hpp"

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
  read.tensor = NKV_TENSOR_KEYS;
  for (read.planes = 1; read.planes <= NKV_KEY_PLANES; ++read.planes) pair.expect_same(read);
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

INSTANTIATE_TEST_SUITE_P(Devices, ParityTest, testing::ValuesIn(subject_uris()), device_name);

}  // namespace
}  // namespace nearkv::test

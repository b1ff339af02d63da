// Pages with codes (section 11): what APPEND stores beside the rows, what READ makes of it, and
// that it goes where the page goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "row_codes.hpp"
#include "row_io.hpp"
#include "support/checksum.hpp"
#include "transform.hpp"

namespace nearkv::test {
namespace {

constexpr uint32_t kPage = NKV_PAGE_TOKENS;

// A sequence whose pages have codes, with what it was made of.
struct CodedSequence {
  Sequence sequence;
  nkv_append_command command;
  Rows keys;
  Rows values;
  std::vector<int8_t> gains;
};

struct Shape {
  uint8_t dtype = NKV_DTYPE_BF16;
  uint32_t head_dim = 64;
  uint32_t value_dim = 64;
  PageForm form = kRawForm;
};

// Rows with a mean, unlike channels and unlike lengths.
Rows uneven_rows(uint8_t dtype, uint32_t count, uint32_t dim, Random& random) {
  std::vector<double> mean(dim);
  std::vector<double> size(dim);
  for (uint32_t i = 0; i < dim; ++i) {
    size[i] = std::exp(.3 * normal(random));
    mean[i] = 2 * size[i] * normal(random);
  }
  double length = 1;
  return make_rows(dtype, count, dim, [&](uint32_t, uint32_t channel) {
    if (channel == 0) length = std::exp(.12 * normal(random));
    return mean[channel] + length * size[channel] * normal(random);
  });
}

CodedSequence append_coded(Device& device, const Shape& shape, uint8_t sign_run = 3,
                           uint32_t first_page = 5) {
  Random random(shape.head_dim);
  CodedSequence coded{.sequence = {},
                      .command = {},
                      .keys = uneven_rows(shape.dtype, 4 * kPage, shape.head_dim, random),
                      .values = uneven_rows(shape.dtype, 4 * kPage, shape.value_dim, random),
                      .gains = {}};
  for (uint32_t i = 0; i < shape.head_dim; ++i) {
    coded.gains.push_back(static_cast<int8_t>(pick(random, 0, 20)) - 10);
  }
  nkv_append_command& command = coded.command;
  command = append_command(coded.keys, shape.value_dim, shape.form);
  command.flags = NKV_APPEND_FLAG_CODES;
  command.sign_run = sign_run;
  command.first_token = first_page * kPage;
  const uint64_t page_bytes =
      layout_of(shape.dtype, shape.head_dim, shape.value_dim, shape.form, NKV_PAGE_FLAG_CODES)
          .total_bytes;
  std::vector<nkv_page_entry> entries =
      device.read<nkv_page_entry>(make_page_list(device, 4, page_bytes), 4);
  command.page_list = device.allocate(entries.size() * sizeof(nkv_page_entry) + shape.head_dim);
  device.write<nkv_page_entry>(command.page_list, entries);
  device.write<int8_t>(command.page_list + entries.size() * sizeof(nkv_page_entry), coded.gains);
  command.keys = device.put<std::byte>(coded.keys.bytes());
  if (shape.form.v_form != NKV_ROW_FORM_NONE) {
    command.values = device.put<std::byte>(coded.values.bytes());
  }
  EXPECT_EQ(device.run(command).status, NKV_STATUS_OK);
  coded.sequence = {.page_list = command.page_list, .tokens = command.tokens};
  return coded;
}

std::vector<model::Number> numbers_of(const Rows& rows, uint32_t first_row, uint32_t dim) {
  std::vector<model::Number> numbers;
  for (uint32_t row = first_row; row < first_row + kPage; ++row) {
    for (uint32_t channel = 0; channel < dim; ++channel) {
      const auto value = static_cast<float>(rows.at(row, channel));
      numbers.push_back(model::decode_binary32(std::bit_cast<uint32_t>(value)));
    }
  }
  return numbers;
}

unsigned bit_of(std::span<const std::byte> bits, size_t element) {
  return std::to_integer<unsigned>(bits[element / 8]) >> element % 8 & 1;
}

// A page's cells of one tensor, taken together from the planes of the contract.
std::vector<uint8_t> cells_of(const Device& device, const nkv_page_entry& entry, bool is_keys,
                              uint32_t dim) {
  std::vector<std::byte> planes;
  if (is_keys) planes = read_array(device, entry, NKV_PAGE_ARRAY_K_SIGNS);
  const auto rest =
      read_array(device, entry, is_keys ? NKV_PAGE_ARRAY_K_CODES : NKV_PAGE_ARRAY_V_CODES);
  planes.insert(planes.end(), rest.begin(), rest.end());
  const size_t elements = size_t{kPage} * dim;
  std::vector<uint8_t> cells(elements);
  for (size_t plane = 0; plane * elements < 8 * planes.size(); ++plane) {
    for (size_t i = 0; i < elements; ++i) {
      cells[i] = static_cast<uint8_t>(2 * cells[i] + bit_of(planes, plane * elements + i));
    }
  }
  return cells;
}

class CodedShapes : public testing::TestWithParam<Shape> {};

TEST_P(CodedShapes, AppendWritesTheCodesOfItsRows) {
  const Shape& shape = GetParam();
  const bool has_value_rows = shape.form.v_form != NKV_ROW_FORM_NONE;
  Device device;
  const CodedSequence coded = append_coded(device, shape);
  const auto entries = read_entries(device, coded.sequence);
  for (uint32_t page = 0; page < entries.size(); ++page) {
    const nkv_page_header header = read_header(device, entries[page]);
    EXPECT_EQ(header.flags, NKV_PAGE_FLAG_CODES);
    EXPECT_EQ(header.sign_set, (5 + page) / 3 % 16);
    const Rows& values = has_value_rows ? coded.values : coded.keys;
    const auto k = model::encode_rows(numbers_of(coded.keys, page * kPage, shape.head_dim),
                                      coded.gains, header.sign_set, model::kKeyCodes);
    const auto v = model::encode_rows(numbers_of(values, page * kPage, shape.value_dim), {},
                                      header.sign_set, model::kValueCodes);
    EXPECT_EQ(header.k_mean_power, k.mean_power);
    EXPECT_EQ(header.v_mean_power, v.mean_power);
    EXPECT_EQ(header.k_top, k.top);
    EXPECT_EQ(header.v_top, v.top);
    EXPECT_EQ(cells_of(device, entries[page], true, shape.head_dim), k.cell);
    EXPECT_EQ(cells_of(device, entries[page], false, shape.value_dim), v.cell);

    const auto summary = read_array(device, entries[page], NKV_PAGE_ARRAY_CODE_SUMMARY);
    for (uint32_t token = 0; token < kPage; ++token) {
      EXPECT_EQ(std::to_integer<int>(summary[token / 2]) >> token % 2 * 4 & 15, k.factor[token]);
      EXPECT_EQ(std::to_integer<int>(summary[32 + token / 2]) >> token % 2 * 4 & 15,
                v.factor[token]);
    }
    for (uint32_t i = 0; i < shape.head_dim; ++i) {
      EXPECT_EQ(static_cast<int8_t>(summary[64 + i]), k.mean[i]);
    }
    for (uint32_t i = 0; i < shape.value_dim; ++i) {
      EXPECT_EQ(static_cast<int8_t>(summary[64 + shape.head_dim + i]), v.mean[i]);
    }
    const auto gains = read_array(device, entries[page], NKV_PAGE_ARRAY_K_GAINS);
    EXPECT_TRUE(std::ranges::equal(gains, std::as_bytes(std::span(coded.gains))));
    EXPECT_EQ(header.crc_code_summary, checksum(summary));
    EXPECT_EQ(header.crc_k_gains, checksum(gains));
  }
}

TEST_P(CodedShapes, TheRestOfAPageIsAsWithoutCodes) {
  const Shape& shape = GetParam();
  Device device;
  const CodedSequence coded = append_coded(device, shape);
  const Sequence plain = append(device, coded.keys, coded.values, shape.form);
  const auto entries = read_entries(device, coded.sequence);
  const auto plain_entries = read_entries(device, plain);
  for (uint32_t page = 0; page < entries.size(); ++page) {
    for (int array = 0; array < NKV_PAGE_ARRAY_CODE_SUMMARY; ++array) {
      EXPECT_EQ(read_array(device, entries[page], static_cast<nkv_page_array>(array)),
                read_array(device, plain_entries[page], static_cast<nkv_page_array>(array)));
    }
  }
}

// Rows in binary64 that READ gives of one tensor.
std::vector<double> read_codes(Device& device, const Sequence& sequence, uint8_t tensor,
                               uint8_t planes, uint32_t dim) {
  const uint64_t mark = device.mark();
  const uint64_t bytes = uint64_t{sequence.tokens} * dim * sizeof(uint16_t);
  const uint64_t result = device.allocate(bytes);
  auto command = read_command(sequence, tensor, 0, sequence.tokens, result);
  command.flags = NKV_READ_FLAG_CODES;
  command.planes = planes;
  EXPECT_EQ(device.run(command).status, NKV_STATUS_OK);
  std::vector<double> rows;
  for (const uint32_t pattern : from_bytes(NKV_DTYPE_BF16, device.read<std::byte>(result, bytes))) {
    rows.push_back(decode(NKV_DTYPE_BF16, pattern));
  }
  device.release(mark);
  return rows;
}

// The energy of what the planes leave of the rows' residuals, of which a normal distribution leaves
// 1 / (1 + 1 / variance) at best and `variance` in rows without a bias.
TEST_P(CodedShapes, ReadTellsTheRowsAsWellAsTheirCodesDo) {
  const Shape& shape = GetParam();
  Device device;
  const CodedSequence coded = append_coded(device, shape);
  for (const bool is_keys : {true, false}) {
    const uint32_t dim = is_keys ? shape.head_dim : shape.value_dim;
    if (dim == 0) continue;
    const bool of_keys = is_keys || shape.form.v_form == NKV_ROW_FORM_NONE;
    const Rows& exact = of_keys ? coded.keys : coded.values;
    const model::CodeForm& form = is_keys ? model::kKeyCodes : model::kValueCodes;
    for (int planes = 1; planes <= form.planes; ++planes) {
      const auto rows =
          read_codes(device, coded.sequence, is_keys ? NKV_TENSOR_KEYS : NKV_TENSOR_VALUES,
                     static_cast<uint8_t>(planes), dim);
      double error = 0;
      double energy = 0;
      for (uint32_t channel = 0; channel < dim; ++channel) {
        const double gain = is_keys ? std::exp2(coded.gains[channel] / 16.0) : 1;
        for (uint32_t page = 0; page < 4; ++page) {
          double mean = 0;
          for (uint32_t t = 0; t < kPage; ++t) mean += exact.at(page * kPage + t, channel) / kPage;
          for (uint32_t t = 0; t < kPage; ++t) {
            const double x = exact.at(page * kPage + t, channel);
            error += std::pow(gain * (rows[(page * kPage + t) * dim + channel] - x), 2);
            energy += std::pow(gain * (x - mean), 2);
          }
        }
      }
      const double stated = form.variance[static_cast<size_t>(planes - 1)] / 4096.0;
      EXPECT_LT(error / energy, 1.3 * stated + .02) << is_keys << ' ' << planes;
      EXPECT_GT(error / energy, .5 * stated) << is_keys << ' ' << planes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pages, CodedShapes,
    testing::Values(Shape{}, Shape{.head_dim = 16, .value_dim = 48},
                    Shape{.head_dim = 96, .value_dim = 96, .form = {}},
                    Shape{.head_dim = 192, .value_dim = 128},
                    Shape{.dtype = NKV_DTYPE_FP16, .head_dim = 128, .value_dim = 80},
                    Shape{.head_dim = 576,
                          .value_dim = 512,
                          .form = {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE}},
                    Shape{.head_dim = 64,
                          .value_dim = 0,
                          .form = {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE}}));

std::vector<std::byte> page_bytes(const Device& device, const nkv_page_entry& entry) {
  return device.read<std::byte>(uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES,
                                layout_of(read_header(device, entry)).total_bytes);
}

Sequence move(Device& device, const Sequence& source, uint8_t opcode, uint8_t codec) {
  nkv_pages_command command{};
  command.opcode = opcode;
  command.codec = codec;
  command.count = source.pages();
  command.slot_bytes = opcode == NKV_OPCODE_TRANSCODE ? 1 << 20 : 0;
  command.source = source.page_list;
  command.destination = make_page_list(device, command.count, 1 << 20);
  command.result = device.allocate(command.count * sizeof(uint32_t));
  EXPECT_EQ(device.run(command).status, NKV_STATUS_OK);
  return {.page_list = command.destination, .tokens = source.tokens};
}

TEST(CodedPages, AreCopiedAndSurviveALosslessCodec) {
  Device device;
  const CodedSequence coded = append_coded(device, {.head_dim = 128, .value_dim = 64, .form = {}});
  const Sequence copy = move(device, coded.sequence, NKV_OPCODE_COPY, NKV_CODEC_NONE);
  const Sequence cold = move(device, copy, NKV_OPCODE_TRANSCODE, NKV_CODEC_PLANES_LZ4);
  const Sequence warm = move(device, cold, NKV_OPCODE_TRANSCODE, NKV_CODEC_NONE);
  const auto expected = read_entries(device, coded.sequence);
  for (const Sequence& moved : {copy, warm}) {
    const auto entries = read_entries(device, moved);
    for (size_t page = 0; page < entries.size(); ++page) {
      EXPECT_EQ(page_bytes(device, entries[page]), page_bytes(device, expected[page]));
    }
  }
}

uint8_t scrub(Device& device, const Sequence& sequence) {
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_SCRUB;
  command.count = sequence.pages();
  command.source = sequence.page_list;
  return device.run(command).status;
}

TEST(CodedPages, SomeDamageToTheirCodesIsFound) {
  Device device;
  const CodedSequence coded = append_coded(device, {});
  const nkv_page_entry entry = read_entries(device, coded.sequence)[2];
  const nkv_page_layout layout = layout_of(read_header(device, entry));
  EXPECT_EQ(scrub(device, coded.sequence), NKV_STATUS_OK);
  for (int array = NKV_PAGE_ARRAY_CODE_SUMMARY; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    for (const uint32_t at : {0U, layout.bytes[array] - 1}) {
      std::byte& byte =
          device.window()[uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES + layout.offset[array] + at];
      byte ^= std::byte{16};
      EXPECT_EQ(scrub(device, coded.sequence), NKV_STATUS_CORRUPT) << array << ' ' << at;
      byte ^= std::byte{16};
    }
  }
}

nkv_completion try_read(Device& device, const Sequence& sequence, uint8_t tensor, uint8_t planes) {
  auto command = read_command(sequence, tensor, 0, kPage, device.allocate(1 << 18));
  command.flags = NKV_READ_FLAG_CODES;
  command.planes = planes;
  return device.run(command);
}

TEST(CodedPages, AreReadOnlyWhereTheyHaveCodes) {
  Device device;
  const CodedSequence coded = append_coded(device, {});
  const Sequence plain = append(device, coded.keys, coded.values, kRawForm);
  EXPECT_EQ(try_read(device, coded.sequence, NKV_TENSOR_BOTH, 4).status, NKV_STATUS_OK);
  EXPECT_EQ(try_read(device, plain, NKV_TENSOR_KEYS, 1).status, NKV_STATUS_BAD_PAGE);
  const nkv_completion none = try_read(device, coded.sequence, NKV_TENSOR_KEYS, 0);
  EXPECT_EQ(none.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(none.detail, offsetof(nkv_read_command, planes));

  // A sign set that is none, under a right checksum.
  const nkv_page_entry entry = read_entries(device, coded.sequence)[0];
  forge_header(device, entry, [](nkv_page_header& header) { header.sign_set = NKV_SIGN_SETS; });
  EXPECT_EQ(try_read(device, coded.sequence, NKV_TENSOR_KEYS, 1).status, NKV_STATUS_BAD_PAGE);
}

TEST(CodedPages, HaveASignSetForEightPagesIfTheCommandDoesNotSay) {
  Device device;
  const CodedSequence coded = append_coded(device, {}, 0, 14);
  const auto entries = read_entries(device, coded.sequence);
  EXPECT_EQ(read_header(device, entries[1]).sign_set, 1);
  EXPECT_EQ(read_header(device, entries[2]).sign_set, 2);
}

TEST(CodedPages, NeedTheirGainsInTheWindow) {
  Device device;
  const CodedSequence coded = append_coded(device, {});
  nkv_append_command command = coded.command;
  const auto entries = read_entries(device, coded.sequence);
  command.page_list = device.window().size() - entries.size() * sizeof(nkv_page_entry) - 56;
  device.write<nkv_page_entry>(command.page_list, entries);
  const nkv_completion refused = device.run(command);
  EXPECT_EQ(refused.status, NKV_STATUS_ADDRESS_FAULT);
  EXPECT_EQ(refused.detail, command.page_list);
}

}  // namespace
}  // namespace nearkv::test

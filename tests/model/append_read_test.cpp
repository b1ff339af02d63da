// What APPEND stores, READ and GATHER give back: to the last bit, in every type and form.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "row_io.hpp"

namespace nearkv::test {
namespace {

constexpr uint32_t kPage = NKV_PAGE_TOKENS;

Rows pattern_rows(uint8_t dtype, uint32_t count, uint32_t dim, Random& random) {
  Rows rows{.dtype = dtype, .count = count, .dim = dim, .patterns = {}};
  const uint32_t largest = nkv_element_bytes(dtype) == 1 ? 0xff : 0xffff;
  for (uint32_t i = 0; i < count * dim; ++i) rows.patterns.push_back(pick(random, 0, largest));
  return rows;
}

void expect_round_trip(Device& device, const Rows& keys, const Rows& values, PageForm form) {
  const uint64_t mark = device.mark();
  const Sequence sequence = append(device, keys, values, form);
  EXPECT_EQ(read_patterns(device, sequence, keys.dtype, keys.dim, NKV_TENSOR_KEYS, 0, keys.count),
            keys.patterns);
  if (form.v_form != NKV_ROW_FORM_NONE) {
    EXPECT_EQ(read_patterns(device, sequence, values.dtype, values.dim, NKV_TENSOR_VALUES, 0,
                            values.count),
              values.patterns);
  }
  device.release(mark);
}

TEST(RoundTrip, EveryBf16PatternInRawForm) {
  Device device;
  Rows keys{.dtype = NKV_DTYPE_BF16, .count = 16 * kPage, .dim = 64, .patterns = {}};
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) keys.patterns.push_back(pattern);
  Rows values = keys;
  std::reverse(values.patterns.begin(), values.patterns.end());
  expect_round_trip(device, keys, values, kRawForm);
}

// A channel of DELTA4 holds 15 exponents; every pattern finds a page of its like.
TEST(RoundTrip, EveryBf16PatternInDelta4Form) {
  Device device;
  constexpr uint32_t kDim = 16;
  for (uint32_t exponent = 1; exponent <= 254; ++exponent) {
    // 64 x 16 elements: both signs, 128 mantissas, of this exponent and three below it.
    Rows rows{.dtype = NKV_DTYPE_BF16, .count = kPage, .dim = kDim, .patterns = {}};
    for (uint32_t i = 0; i < kPage * kDim; ++i) {
      const uint32_t below = i / 256;
      const uint32_t kept = exponent > below ? exponent - below : 1;
      rows.patterns.push_back((i & 0x80) << 8 | kept << 7 | (i & 0x7f));
    }
    expect_round_trip(device, rows, rows, {});
  }
}

// Subnormals, infinities and NaN are exceptions; a page has room for 16 of them per tensor.
TEST(RoundTrip, EveryExceptionalBf16PatternInDelta4Form) {
  Device device;
  Random random(1);
  std::vector<uint32_t> exceptional;
  for (uint32_t mantissa = 0; mantissa < 0x80; ++mantissa) {
    for (const uint32_t sign : {0u, 0x8000u}) {
      exceptional.push_back(sign | mantissa);           // Zeros among them.
      exceptional.push_back(sign | 0x7f80 | mantissa);  // Infinities among them.
    }
  }
  for (size_t first = 0; first < exceptional.size(); first += NKV_EXCEPTIONS) {
    Rows rows = make_rows(NKV_DTYPE_BF16, kPage, 32,
                          [&](uint32_t, uint32_t) { return uniform(random, 1.0, 2.0); });
    for (size_t i = 0; i < NKV_EXCEPTIONS; ++i) {
      rows.patterns[pick(random, 0, kPage * 32 - 1)] = exceptional[first + i];
    }
    expect_round_trip(device, rows, rows, {});
  }
}

TEST(RoundTrip, Delta4AtTheEdgeOfItsRange) {
  Device device;
  // Exponents x + 1 and x + 15 fit a channel whose largest is x + 15; x does not.
  Rows rows = make_rows(NKV_DTYPE_BF16, kPage, 16, [](uint32_t row, uint32_t) {
    return row == 0 ? 1.0 : (row == 1 ? 0x1p-14 : (row == 2 ? -0x1p-15 : 0.0));
  });
  rows.patterns[3 * 16] = 0x8000;  // −0
  const uint64_t mark = device.mark();
  const Sequence sequence = append(device, rows, rows);
  const nkv_page_header header = read_header(device, read_entries(device, sequence)[0]);
  EXPECT_EQ(header.k_exceptions, 16);
  EXPECT_EQ(header.v_exceptions, 16);
  device.release(mark);
  expect_round_trip(device, rows, rows, {});
}

TEST(RoundTrip, RandomPatternsOfEveryTypeAndShape) {
  Device device;
  Random random(2);
  for (const uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const uint32_t dim : {16u, 48u, 80u, 256u, 576u}) {
      const Rows keys = pattern_rows(dtype, 2 * kPage, dim, random);
      const Rows values = pattern_rows(dtype, 2 * kPage, dim == 576 ? 512 : dim, random);
      expect_round_trip(device, keys, values, kRawForm);
      expect_round_trip(device, keys, values,
                        {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE});
    }
  }
}

TEST(RoundTrip, MixedForms) {
  Device device;
  Random random(3);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 128, 1.0, random);
  const Rows values = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 64, 1.0, random);
  for (const uint8_t k_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    for (const uint8_t v_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_NONE}) {
      expect_round_trip(device, keys, values, {.k_form = k_form, .v_form = v_form});
    }
  }
}

TEST(Read, ValuesOfAPageWithoutValueRowsAreTheLeadingKeyChannels) {
  Device device;
  Random random(4);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, kPage, 576, 1.0, random);
  const Rows values = normal_rows(NKV_DTYPE_BF16, kPage, 512, 1.0, random);
  const Sequence sequence = append(device, keys, values, {.v_form = NKV_ROW_FORM_NONE});
  const auto read =
      read_patterns(device, sequence, NKV_DTYPE_BF16, 512, NKV_TENSOR_VALUES, 0, kPage);
  ASSERT_EQ(read.size(), size_t{kPage} * 512);
  for (uint32_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], keys.patterns[i / 512 * 576 + i % 512]);
  }
}

TEST(Read, AnyRangeOfRowsAndBothTensors) {
  Device device;
  Random random(5);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 4 * kPage, 80, 1.0, random);
  const Rows values = normal_rows(NKV_DTYPE_BF16, 4 * kPage, 48, 1.0, random);
  const Sequence sequence = append(device, keys, values);
  for (const auto& [first, count] : {std::pair{0u, 1u}, {63u, 2u}, {100u, 156u}, {5u, 3u}}) {
    const uint64_t result = device.allocate(1 << 20);
    const auto completion =
        device.run(read_command(sequence, NKV_TENSOR_BOTH, first, count, result));
    ASSERT_EQ(completion.status, NKV_STATUS_OK);
    EXPECT_EQ(completion.count, count);
    const uint64_t key_bytes = uint64_t{count} * 80 * 2;
    const auto got_keys = from_bytes(NKV_DTYPE_BF16, device.read<std::byte>(result, key_bytes));
    const auto got_values = from_bytes(
        NKV_DTYPE_BF16,
        device.read<std::byte>(result + burst_aligned(key_bytes), uint64_t{count} * 48 * 2));
    EXPECT_TRUE(std::equal(got_keys.begin(), got_keys.end(), &keys.patterns[first * 80]));
    EXPECT_TRUE(std::equal(got_values.begin(), got_values.end(), &values.patterns[first * 48]));
  }
}

TEST(Gather, AnyOrderWithRepeats) {
  Device device;
  Random random(6);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 8 * kPage, 64, 1.0, random);
  const Sequence sequence = append(device, keys, keys);
  const std::vector<uint32_t> ids{511, 0, 63, 64, 511, 17, 300, 0};
  const uint64_t result = device.allocate(1 << 16);
  const auto count = static_cast<uint32_t>(ids.size());
  const auto completion = device.run(
      gather_command(sequence, NKV_TENSOR_VALUES, device.put<uint32_t>(ids), count, result));
  ASSERT_EQ(completion.status, NKV_STATUS_OK);
  EXPECT_EQ(completion.count, count);
  const auto got = from_bytes(NKV_DTYPE_BF16, device.read<std::byte>(result, ids.size() * 128));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], keys.patterns[ids[i / 64] * 64 + i % 64]);
  }
}

TEST(Gather, RefusesAnIdAtOrAboveTokens) {
  Device device;
  Random random(7);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 64, 1.0, random);
  const Sequence sequence = append(device, keys, keys);
  const std::vector<uint32_t> ids{3, 100};
  auto command = gather_command(sequence, NKV_TENSOR_KEYS, device.put<uint32_t>(ids), 2,
                                device.allocate(4096));
  command.tokens = 100;
  const auto completion = device.run(command);
  EXPECT_EQ(completion.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(completion.detail, offsetof(nkv_gather_command, ids));
}

// One burst further, and the rows would lie on what is read.
TEST(Gather, MayWriteRightBesideWhatItReadsButNotOnIt) {
  Device device;
  Random random(8);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 64, 1.0, random);
  constexpr uint64_t kRoom = 8 * NKV_BURST_BYTES;
  const auto rows_bytes = uint64_t{3} * 64 * 2;
  (void)device.allocate(kRoom);
  const Sequence sequence = append(device, keys, keys);
  (void)device.allocate(kRoom);
  const uint64_t ids = device.put<uint32_t>(std::vector<uint32_t>{70, 3, 3});
  (void)device.allocate(kRoom);
  const auto entries = read_entries(device, sequence);
  const auto page_at = [&](size_t page) {
    return uint64_t{entries[page].page} * NKV_PAGE_GRAIN_BYTES;
  };
  const nkv_page_layout layout = layout_of(read_header(device, entries[1]));
  const uint64_t below_page = page_at(0) - rows_bytes;
  const uint64_t above_page = page_at(1) + layout.total_bytes;
  const auto run = [&](uint64_t result) {
    return device.run(gather_command(sequence, NKV_TENSOR_KEYS, ids, 3, result));
  };
  for (const uint64_t result : {below_page + NKV_BURST_BYTES, above_page - NKV_BURST_BYTES,
                                sequence.page_list / NKV_BURST_BYTES * NKV_BURST_BYTES,
                                ids / NKV_BURST_BYTES * NKV_BURST_BYTES}) {
    const auto completion = run(result);
    EXPECT_EQ(completion.status, NKV_STATUS_BAD_FIELD) << result;
    EXPECT_EQ(completion.detail, offsetof(nkv_gather_command, result));
  }
  EXPECT_EQ(run(below_page).status, NKV_STATUS_OK);
  EXPECT_EQ(read_entries(device, sequence)[0].generation, entries[0].generation);
}

TEST(Append, TakesStridedRows) {
  Device device;
  Random random(8);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 64, 1.0, random);
  // Keys and values interleaved with 7 bytes between rows, as an engine's buffer may have them.
  constexpr uint32_t kStride = 128 + 128 + 7;
  const auto bytes = keys.bytes();
  std::vector<std::byte> interleaved(size_t{kStride} * keys.count);
  for (size_t row = 0; row < keys.count; ++row) {
    const auto* const source = bytes.data() + row * 128;
    const auto* const mirrored = bytes.data() + (keys.count - 1 - row) * 128;
    std::copy_n(source, 128, interleaved.data() + row * kStride);
    std::copy_n(mirrored, 128, interleaved.data() + row * kStride + 128);
  }
  auto command = append_command(keys, 64, {});
  command.page_list = make_page_list(device, 2, layout_of(NKV_DTYPE_BF16, 64, 64, {}).total_bytes);
  command.keys = device.put<std::byte>(interleaved);
  command.values = command.keys + 128;
  command.key_stride = kStride;
  command.value_stride = kStride;
  ASSERT_EQ(device.run(command).status, NKV_STATUS_OK);
  const Sequence sequence{.page_list = command.page_list, .tokens = keys.count};
  EXPECT_EQ(read_patterns(device, sequence, NKV_DTYPE_BF16, 64, NKV_TENSOR_KEYS, 0, keys.count),
            keys.patterns);
  const auto last =
      read_patterns(device, sequence, NKV_DTYPE_BF16, 64, NKV_TENSOR_VALUES, keys.count - 1, 1);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), keys.patterns.begin()));
}

TEST(Append, FillsHeaderAndEntries) {
  Device device;
  Random random(9);
  Rows keys = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 64, 1.0, random);
  keys.patterns[5 * 64 + 3] = encode(NKV_DTYPE_BF16, 1000.0);
  keys.patterns[7 * 64] = 0x7f80;  // An infinity: token 7 takes no part.
  const Rows values = normal_rows(NKV_DTYPE_BF16, 2 * kPage, 32, 0.001, random);
  const Sequence sequence = append(device, keys, values);
  const auto entries = read_entries(device, sequence);
  EXPECT_EQ(entries[0].k_exponent, 127 + 9);
  for (uint32_t page = 0; page < 2; ++page) {
    const nkv_page_header header = read_header(device, entries[page]);
    EXPECT_EQ(header.magic, NKV_PAGE_MAGIC);
    EXPECT_EQ(header.version, NKV_PAGE_VERSION);
    EXPECT_EQ(header.state, NKV_PAGE_STATE_CLOSED);
    EXPECT_EQ(header.tokens, NKV_PAGE_TOKENS);
    EXPECT_EQ(header.generation, 1);
    EXPECT_EQ(header.tenant, Device::kTenant);
    EXPECT_EQ(header.sequence_id, 42u);
    EXPECT_EQ(header.layer, 3);
    EXPECT_EQ(header.kv_head, 5);
    EXPECT_EQ(header.first_token, page * kPage);
    EXPECT_EQ(header.k_exponent, entries[page].k_exponent);
    EXPECT_EQ(header.v_exponent, entries[page].v_exponent);
    EXPECT_EQ(header.nonfinite, page == 0 ? uint64_t{1} << 7 : 0u);
  }
}

TEST(Append, TooManyExceptionsChangeNothing) {
  Device device;
  Random random(11);
  for (const bool in_values : {false, true}) {
    Rows keys = normal_rows(NKV_DTYPE_BF16, 3 * kPage, 32, 1.0, random);
    Rows values = keys;
    // 17 subnormals in the second page.
    Rows& spoiled = in_values ? values : keys;
    for (uint32_t i = 0; i < 17; ++i) spoiled.patterns[(kPage + 3 * i) * 32 + i] = 1;
    auto command = append_command(keys, 32, {});
    command.page_list =
        make_page_list(device, 3, layout_of(NKV_DTYPE_BF16, 32, 32, {}).total_bytes);
    command.keys = device.put<std::byte>(keys.bytes());
    command.values = device.put<std::byte>(values.bytes());
    const std::vector<std::byte> before(device.window().begin(), device.window().end());
    const auto completion = device.run(command);
    EXPECT_EQ(completion.status, NKV_STATUS_PAGE_OVERFLOW);
    EXPECT_EQ(completion.detail, 1u);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), device.window().begin()));
    command.k_form = NKV_ROW_FORM_RAW;
    command.v_form = NKV_ROW_FORM_RAW;
    command.page_list =
        make_page_list(device, 3, layout_of(NKV_DTYPE_BF16, 32, 32, kRawForm).total_bytes);
    EXPECT_EQ(device.run(command).status, NKV_STATUS_OK);
  }
}

TEST(Read, TakesPlanesOnlyOfCodes) {
  Device device;
  Random random(12);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, kPage, 64, 1.0, random);
  const Sequence sequence = append(device, keys, keys);
  auto command = read_command(sequence, NKV_TENSOR_KEYS, 0, kPage, device.allocate(1 << 16));
  command.planes = 1;
  const auto completion = device.run(command);
  EXPECT_EQ(completion.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(completion.detail, offsetof(nkv_read_command, planes));
}

}  // namespace
}  // namespace nearkv::test

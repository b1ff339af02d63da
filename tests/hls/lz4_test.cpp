// nearkv_lz4_decode against liblz4 and the format's description, nearkv_lz4_encode against liblz4's
// decoder: on the blocks that the RTL's are tested on.
#include "kernels/lz4.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "codec/lz4_reference.hpp"
#include "kernel_list.hpp"

namespace nearkv::hls_test {
namespace {

using rtl_test::Bytes;
using rtl_test::kLargest;

std::span<const std::byte> bytes_of(const Bytes& bytes) { return std::as_bytes(std::span(bytes)); }

void expect_decodes_alike(const Bytes& block, std::size_t size) {
  const rtl_test::Reference expected = rtl_test::decode_by_liblz4(block, size);
  Bursts in = to_bursts(bytes_of(block));
  in.resize(in.size() + 1);
  Bursts out(size / NKV_BURST_BYTES + 1);
  const bool is_good = nearkv_lz4_decode(in.data(), static_cast<int>(block.size()),
                                         static_cast<int>(size), out.data());
  ASSERT_EQ(is_good, expected.plain.has_value());
  if (!is_good) return;
  const auto plain = to_bytes(out, size);
  const auto wanted = bytes_of(*expected.plain);
  ASSERT_TRUE(std::equal(plain.begin(), plain.end(), wanted.begin(), wanted.end()));
}

std::size_t expect_round_trip(const Bytes& plain) {
  const int size = static_cast<int>(plain.size());
  const Bursts in = to_bursts(bytes_of(plain));
  Bursts out(static_cast<std::size_t>(kernels::most_lz4_bytes(size)) / NKV_BURST_BYTES + 1);
  const int block_bytes = nearkv_lz4_encode(in.data(), size, out.data());
  EXPECT_LE(block_bytes, LZ4_compressBound(size));
  const auto bytes = to_bytes(out, static_cast<std::size_t>(block_bytes));
  Bytes block(bytes.size());
  std::transform(bytes.begin(), bytes.end(), block.begin(),
                 [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  Bytes decoded(plain.size() + 1);
  const int written =
      LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                          reinterpret_cast<char*>(decoded.data()), block_bytes, size);
  EXPECT_EQ(written, size);
  decoded.resize(plain.size());
  EXPECT_TRUE(decoded == plain);
  if (testing::Test::HasFailure()) return 0;
  const rtl_test::Ends ends = rtl_test::ends_of(block);
  if (ends.has_match) {
    EXPECT_GE(ends.literals, 5U);
    EXPECT_LE(ends.last_match + 12, plain.size());
  }
  return block.size();
}

TEST(Lz4DecodeTest, BlocksOfEverySize) {
  test::Random random = test::case_random(1);
  for (unsigned i = 0; i < 400; ++i) {
    const std::size_t size = i < 150 ? i + 1 : test::pick(random, 1, 5000);
    const Bytes plain = rtl_test::some_data(random, size, i % 8);
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_decodes_alike(rtl_test::compress(plain, i % 2 == 0), size);
    if (HasFailure()) return;
  }
}

TEST(Lz4DecodeTest, LongBlocksReachBack64KiB) {
  test::Random random = test::case_random(2);
  for (unsigned sameness = 0; sameness < 8; sameness += 2) {
    const Bytes plain = rtl_test::some_data(random, kLargest, sameness);
    expect_decodes_alike(rtl_test::compress(plain, true), kLargest);
  }
  Bytes ends = rtl_test::some_data(random, kLargest, 0);
  std::copy_n(ends.begin(), 200, ends.end() - 201);
  expect_decodes_alike(rtl_test::compress(ends, true), kLargest);
}

TEST(Lz4DecodeTest, EveryOffset) {
  for (std::size_t offset = 0; offset <= 40; ++offset) {
    for (const std::size_t literals : {offset - 1, offset, offset + 1, offset + 13}) {
      if (literals > 1000) continue;
      for (const std::size_t length : {4U, 5U, 15U, 18U, 19U, 40U, 300U}) {
        SCOPED_TRACE(testing::Message() << offset << ", " << length << " after " << literals);
        expect_decodes_alike(rtl_test::block_of_match(offset, length, literals),
                             literals + length + 8);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Lz4DecodeTest, RefusesWhatIsNoBlock) {
  for (std::size_t size = 20; size < 60; ++size) {
    const Bytes good = rtl_test::block_of_match(3, 20, 6);
    for (std::size_t cut = 0; cut <= good.size(); ++cut) {
      expect_decodes_alike(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)),
                           size);
    }
    if (HasFailure()) return;
  }
  // The last match: how long it is, how many literals follow.
  for (const std::size_t length : {4U, 5U, 6U, 7U, 8U, 9U, 12U, 19U, 300U}) {
    for (std::size_t tail = 0; tail < 15; ++tail) {
      for (const std::size_t literals : {1U, 10U, 14U, 20U}) {
        expect_decodes_alike(rtl_test::block_of_match(1, length, literals, tail),
                             literals + length + tail);
      }
    }
  }
  expect_decodes_alike({}, 0);
  expect_decodes_alike({}, 5);
  expect_decodes_alike({0}, 0);
  expect_decodes_alike({0}, 1);
  test::Random random = test::case_random(3);
  for (unsigned i = 0; i < 3000; ++i) {
    const std::size_t size = test::pick(random, 1, 700);
    const Bytes block = rtl_test::maybe_damaged_block(random, size, i);
    SCOPED_TRACE(testing::Message() << "round " << i);
    expect_decodes_alike(block, i % 7 == 0 ? test::pick(random, 0, 900) : size);
    if (HasFailure()) return;
  }
}

TEST(Lz4EncodeTest, RoundTripsOfEverySize) {
  test::Random random = test::case_random(4);
  for (unsigned i = 0; i < 800; ++i) {
    const std::size_t size = i < 400 ? i + 1 : test::pick(random, 1, 6000);
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_round_trip(rtl_test::data_of_kind(random, size, i));
    if (HasFailure()) return;
  }
}

TEST(Lz4EncodeTest, EveryPeriodAndEnd) {
  for (std::size_t period = 1; period < 40; period += 3) {
    for (std::size_t size = 1; size < 120; ++size) {
      Bytes plain(size);
      for (std::size_t i = 0; i < size; ++i) plain[i] = static_cast<std::uint8_t>(i % period);
      SCOPED_TRACE(testing::Message() << "period " << period << " of " << size);
      const std::size_t packed = expect_round_trip(plain);
      if (HasFailure()) return;
      if (size > 60 + 2 * period) {
        EXPECT_LT(packed, size);
      }
    }
  }
}

TEST(Lz4EncodeTest, SizeBesideLiblz4) {
  test::Random random = test::case_random(5);
  const auto tell = [](const char* name, const Bytes& plain) {
    const std::size_t ours = expect_round_trip(plain);
    const std::size_t theirs = rtl_test::size_by_liblz4(plain);
    std::printf("%s: %zu bytes to %zu (liblz4: %zu)\n", name, plain.size(), ours, theirs);
    EXPECT_LE(ours, theirs + theirs / 10 + 64) << name;
  };
  tell("noise", rtl_test::some_data(random, kLargest, 0));
  tell("zeros", Bytes(kLargest, 0));
  tell("text", rtl_test::text(random, kLargest));
  tell("records", rtl_test::records(random, kLargest));
  tell("skewed", rtl_test::skewed_data(random, kLargest, 2));
  tell("many matches", rtl_test::some_data(random, kLargest, 6));
}

}  // namespace
}  // namespace nearkv::hls_test

// nkv_lz4_decode against liblz4: the same bytes, and the same blocks refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "Vnkv_lz4_decode.h"
#include "blocks.hpp"
#include "codec/lz4_reference.hpp"
#include "codec_data.hpp"
#include "decoder_bench.hpp"

namespace nearkv::rtl_test {
namespace {

class Lz4DecodeTest : public testing::Test {
 protected:
  using Bench = DecoderBench<Vnkv_lz4_decode>;

  // Decodes it as liblz4 does.
  void expect_same(const Bytes& block, std::size_t size, unsigned skip = 0, unsigned in_pace = 8,
                   unsigned out_pace = 8) {
    const Reference expected = decode_by_liblz4(block, size);
    const Bench::Decoded decoded = bench_.decode(block, size, skip, in_pace, out_pace);
    ASSERT_EQ(decoded.plain.has_value(), expected.plain.has_value());
    if (!expected.plain) return;
    ASSERT_EQ(decoded.plain->size(), expected.plain->size());
    const auto [is, should] =
        std::mismatch(decoded.plain->begin(), decoded.plain->end(), expected.plain->begin());
    ASSERT_TRUE(is == decoded.plain->end()) << "byte " << is - decoded.plain->begin() << ": "
                                            << int{*is} << " instead of " << int{*should};
  }

  Bench bench_;
  test::Random random_ = test::case_random(1);
};

TEST_F(Lz4DecodeTest, RoundTripsOfEverySizeAndSkip) {
  for (unsigned i = 0; i < 600; ++i) {
    const std::size_t size = i < 150 ? i + 1 : test::pick(random_, 1, 5000);
    const Bytes plain = some_data(random_, size, i % 8);
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_same(compress(plain, i % 2 == 0), size, i % 64, kPaces[i % 3], kPaces[i / 3 % 3]);
    if (HasFailure()) return;
  }
}

TEST_F(Lz4DecodeTest, LongBlocksReachBack64KiB) {
  for (unsigned sameness = 0; sameness < 8; ++sameness) {
    const Bytes plain = some_data(random_, kLargest, sameness);
    expect_same(compress(plain, true), kLargest, sameness * 9);
    if (HasFailure()) return;
  }
  // The first and the last bytes alike, as far apart as an offset tells.
  Bytes ends = some_data(random_, kLargest, 0);
  std::copy_n(ends.begin(), 200, ends.end() - 201);
  expect_same(compress(ends, true), kLargest);
  std::copy_n(ends.begin() + 1, 200, ends.end() - 200);
  expect_same(compress(ends, true), kLargest);
}

TEST_F(Lz4DecodeTest, EveryOffsetAndPhase) {
  for (std::size_t offset = 0; offset <= 90; ++offset) {
    for (const std::size_t literals : {offset - 1, offset, offset + 1, offset + 13}) {
      if (literals > 1000) continue;
      for (const std::size_t length : {4U, 5U, 15U, 18U, 19U, 40U, 300U}) {
        SCOPED_TRACE(testing::Message() << offset << ", " << length << " after " << literals);
        expect_same(block_of_match(offset, length, literals), literals + length + 8);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Lz4DecodeTest, RefusesWhatDoesNotEndAsBlocksEnd) {
  for (std::size_t size = 20; size < 60; ++size) {
    const Bytes good = block_of_match(3, 20, 6);
    expect_same(good, size);
    for (std::size_t cut = 0; cut <= good.size(); ++cut) {
      expect_same(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)), size);
    }
    if (HasFailure()) return;
  }
  // The last match: how long it is, how many literals follow.
  for (const std::size_t length : {4U, 5U, 6U, 7U, 8U, 9U, 12U, 19U, 300U}) {
    for (std::size_t tail = 0; tail < 15; ++tail) {
      for (const std::size_t literals : {1U, 10U, 14U, 20U}) {
        expect_same(block_of_match(1, length, literals, tail), literals + length + tail);
      }
    }
  }
  expect_same({}, 0);
  expect_same({}, 5);
  expect_same({0}, 0);
  expect_same({0}, 1);
  expect_same({0x10, 7}, 1);
}

// Lengths at which a counter of 16, 17 or 18 bits would begin again.
TEST_F(Lz4DecodeTest, RefusesLengthsBeyondTheBlock) {
  for (const unsigned bits : {16U, 17U, 18U, 19U}) {
    const std::size_t around = std::size_t{1} << bits;
    Bytes literals{0xf0};
    put_length(literals, around + 30 - 15);
    literals.resize(literals.size() + 30, 7);
    expect_same(literals, 30);
    Bytes match{0x1f, 9, 1, 0};
    put_length(match, around + 40 - 19);
    match.insert(match.end(), {0x50, 1, 2, 3, 4, 5});
    expect_same(match, 1 + 40 + 5);
  }
}

TEST_F(Lz4DecodeTest, TruncatedAndDamagedBlocks) {
  for (unsigned i = 0; i < 6000; ++i) {
    const std::size_t size = test::pick(random_, 1, 700);
    const Bytes block = maybe_damaged_block(random_, size, i);
    const std::size_t claimed = i % 7 == 0 ? test::pick(random_, 0, 900) : size;
    SCOPED_TRACE(testing::Message() << "round " << i);
    expect_same(block, claimed, i % 64, kPaces[i % 3], kPaces[i / 3 % 3]);
    if (HasFailure()) return;
  }
}

TEST_F(Lz4DecodeTest, NoiseNeverHangs) {
  for (unsigned i = 0; i < 4000; ++i) {
    Bytes block(test::pick(random_, 0, 300));
    for (std::uint8_t& byte : block) {
      byte = static_cast<std::uint8_t>(i % 2 == 0 ? random_() : random_() & random_() & random_());
    }
    expect_same(block, test::pick(random_, 0, 2000), i % 64);
    if (HasFailure()) return;
  }
}

TEST_F(Lz4DecodeTest, ResetInFlight) {
  const Bytes plain = some_data(random_, 3000, 4);
  const Bytes block = compress(plain);
  for (const unsigned cycles : {1U, 20U, 100U}) {
    bench_.abandon(block, plain.size(), cycles);
    expect_same(block, plain.size());
  }
}

// The compressed sections of pages (FORMATS.md, PLANES_LZ4), where they lie in their blocks.
TEST_F(Lz4DecodeTest, SectionsOfPages) {
  constexpr std::size_t kDim = 128;
  // References, the upper four bits of exponents, the lower four, sign, seven bits of mantissa.
  constexpr std::size_t kSections = 14;
  const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = kDim};
  for (const test::Distribution distribution : test::kDistributions) {
    const auto rows = test::to_rows(shape, test::make_block(distribution, kDim, 1));
    const auto encoded = test::encode_block(Codec::kPlanesLz4, shape, rows);
    std::array<std::uint16_t, kSections> sizes;
    std::memcpy(sizes.data(), encoded.data(), sizeof(sizes));
    std::size_t begin = sizeof(sizes);
    std::uint64_t bytes = 0;
    std::uint64_t cycles = 0;
    for (std::size_t section = 0; section < kSections; ++section) {
      const std::size_t plain_size = section == 0 ? kDim : section == 1 ? 32 * kDim : 8 * kDim;
      const std::size_t size = sizes[section];
      if (size > 0 && size < plain_size) {
        Bytes block(size);
        std::memcpy(block.data(), &encoded[begin], size);
        const Reference expected = decode_by_liblz4(block, plain_size);
        const Bench::Decoded decoded = bench_.decode(block, plain_size, begin % kBurst);
        ASSERT_TRUE(decoded.plain.has_value());
        ASSERT_EQ(decoded.plain, expected.plain);
        bytes += plain_size;
        cycles += decoded.cycles;
      }
      begin += size;
    }
    ASSERT_EQ(begin, encoded.size());
    if (bytes > 0) {
      std::printf("%s: %lu bytes of %zu, %.1f per cycle\n",
                  std::string(test::name(distribution)).c_str(), static_cast<unsigned long>(bytes),
                  rows.size(), static_cast<double>(bytes) / static_cast<double>(cycles));
    }
  }
}

TEST_F(Lz4DecodeTest, Speed) {
  const auto tell = [&](const char* name, const Bytes& plain) {
    const Bytes block = compress(plain, true);
    const Bench::Decoded decoded = bench_.decode(block, plain.size());
    EXPECT_EQ(decoded.plain, plain);
    const double rate = static_cast<double>(plain.size()) / static_cast<double>(decoded.cycles);
    std::printf("%s: %zu of %zu bytes, %.1f bytes per cycle\n", name, block.size(), plain.size(),
                rate);
    return rate;
  };
  EXPECT_GT(tell("noise", some_data(random_, kLargest, 0)), 15);
  EXPECT_GT(tell("zeros", Bytes(kLargest, 0)), 15);
  Bytes nines(kLargest);
  for (std::size_t i = 0; i < nines.size(); ++i) nines[i] = static_cast<std::uint8_t>(i % 9);
  EXPECT_GT(tell("period 9", nines), 8.5);
  EXPECT_GT(tell("some matches", some_data(random_, kLargest, 2)), 8);
  EXPECT_GT(tell("many matches", some_data(random_, kLargest, 6)), 8);
  // A plane of exponents' low bits: skewed, hardly repeated.
  Bytes plane(8 * 576);
  for (std::uint8_t& byte : plane) {
    byte = static_cast<std::uint8_t>(random_() & random_() & random_());
  }
  tell("sparse plane", plane);
}

}  // namespace
}  // namespace nearkv::rtl_test

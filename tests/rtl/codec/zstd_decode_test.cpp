// nkv_zstd_decode against libzstd, and against the RFC's letter: the same bytes, and what either
// refuses refused.
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "Vnkv_zstd_decode.h"
#include "blocks.hpp"
#include "codec_data.hpp"
#include "decoder_bench.hpp"
#include "zstd_frames.hpp"
#include "zstd_reference.hpp"

namespace nearkv::rtl_test {
namespace {

std::optional<Bytes> decode_by_libzstd(const Bytes& frame, std::size_t size) {
  Bytes plain(size + 1);
  const std::size_t written = ZSTD_decompress(plain.data(), size, frame.data(), frame.size());
  if (ZSTD_isError(written) != 0 || written != size) return std::nullopt;
  plain.resize(size);
  return plain;
}

class ZstdDecodeTest : public testing::Test {
 protected:
  using Bench = DecoderBench<Vnkv_zstd_decode>;

  // Decodes it as the RFC says; libzstd makes the same of it, or takes what the RFC forbids.
  void expect_same(const Bytes& frame, std::size_t size, unsigned skip = 0, unsigned in_pace = 8,
                   unsigned out_pace = 8) {
    const std::optional<Bytes> strict = decode_strictly(frame, size, &parts_);
    const std::optional<Bytes> reference = decode_by_libzstd(frame, size);
    if (strict) {
      ASSERT_EQ(strict, reference) << "the strict decoder and libzstd disagree";
    }
    ++(strict ? taken_ : reference ? refused_alone_ : refused_);
    const Bench::Decoded decoded = bench_.decode(frame, size, skip, in_pace, out_pace);
    ASSERT_EQ(decoded.plain.has_value(), strict.has_value());
    if (!strict) return;
    ASSERT_EQ(decoded.plain->size(), size);
    const auto [is, should] =
        std::mismatch(decoded.plain->begin(), decoded.plain->end(), strict->begin());
    ASSERT_TRUE(is == decoded.plain->end()) << "byte " << is - decoded.plain->begin() << ": "
                                            << int{*is} << " instead of " << int{*should};
  }

  void expect_round_trip(const Bytes& plain, const Bytes& frame, unsigned skip = 0) {
    ASSERT_EQ(decode_strictly(frame, plain.size()), plain);
    expect_same(frame, plain.size(), skip);
  }

  Bench bench_;
  test::Random random_ = test::case_random(3);
  ZstdParts parts_;
  std::size_t taken_ = 0;
  std::size_t refused_ = 0;
  std::size_t refused_alone_ = 0;  // By us, not by libzstd.
};

TEST_F(ZstdDecodeTest, RoundTripsOfEverySizeAndSkip) {
  for (unsigned i = 0; i < 600; ++i) {
    const std::size_t size = i < 150 ? i : test::pick(random_, 1, 6000);
    const Bytes plain = data_of_kind(random_, size, i);
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_same(compress(plain, at_level(1 + static_cast<int>(i) % 19)), size, i % 64,
                kPaces[i % 3], kPaces[i / 3 % 3]);
    if (HasFailure()) return;
  }
}

TEST_F(ZstdDecodeTest, LargestFramesOfEveryLevel) {
  for (int level = 1; level <= 19; ++level) {
    const Bytes plain = data_of_kind(random_, kLargest, static_cast<unsigned>(5 * level));
    SCOPED_TRACE(testing::Message() << "level " << level);
    expect_round_trip(plain, compress(plain, at_level(level)), static_cast<unsigned>(level));
    if (HasFailure()) return;
  }
  // Plain blocks: the frame is larger than what is held of it.
  const Bytes noise = some_data(random_, kLargest, 0);
  expect_round_trip(noise, compress(noise, at_level(1)));
  // The first and the last bytes alike.
  Bytes ends = some_data(random_, kLargest, 0);
  std::copy_n(ends.begin(), 200, ends.end() - 201);
  expect_round_trip(ends, compress(ends, at_level(19)));
}

// Frames of several blocks: tables and trees are used again, blocks are plain or of one byte.
TEST_F(ZstdDecodeTest, FramesOfSeveralBlocks) {
  for (unsigned i = 0; i < 120; ++i) {
    const std::size_t size = test::pick(random_, 100, i % 10 == 0 ? 65536 : 12000);
    Bytes plain = data_of_kind(random_, size, i);
    if (i % 4 == 0)
      std::fill(plain.begin() + static_cast<std::ptrdiff_t>(size / 2), plain.end(), 7);
    std::vector<std::size_t> ends;
    for (std::size_t end = 0; end < size;) {
      end += test::pick(random_, 1, static_cast<std::uint32_t>(size / 3));
      ends.push_back(end);
    }
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_same(compress(plain, at_level(1 + static_cast<int>(i) % 12), ends), size, i % 64,
                kPaces[i % 3], kPaces[i / 3 % 3]);
    if (HasFailure()) return;
  }
  EXPECT_EQ(taken_, 120U);
}

TEST_F(ZstdDecodeTest, EveryFrameHeader) {
  const Bytes three{1, 2, 3};
  for (unsigned window = 0; window < 256; ++window) {
    expect_same(FrameWriter(window).block(0, 3, three).frame(), 3);
  }
  EXPECT_EQ(refused_, 80U);  // Windows above 2 GiB.
  for (unsigned descriptor = 0; descriptor < 256; ++descriptor) {
    for (unsigned length = 0; length <= 13; ++length) {
      for (const unsigned first : {0U, 3U}) {
        Bytes fields(length, 0);
        if (length > 0) fields[0] = static_cast<std::uint8_t>(first);
        expect_same(FrameWriter(descriptor, fields).block(0, 3, three).frame(), 3);
      }
    }
  }
  // Two bytes of content size count from 256.
  for (const std::size_t size : {255U, 256U, 257U, 300U}) {
    expect_same(FrameWriter(0x60, {44, 0}).block(1, size, {9}).frame(), size);
  }
}

TEST_F(ZstdDecodeTest, PlainBlocksAndBlocksOfOneByte) {
  expect_same(FrameWriter().block(0, 0, {}).frame(), 0);
  expect_same(FrameWriter().block(1, 0, {5}).frame(), 0);
  expect_same(FrameWriter().block(1, 65536, {5}).frame(), 65536);
  expect_same(FrameWriter().block(1, 65537, {5}).frame(), 65536);
  expect_same(FrameWriter().block(3, 1, {5}).frame(), 1);
  expect_same(FrameWriter().block(1, 1, {}).frame(), 1);
  const Bytes noise = some_data(random_, kLargest, 0);
  FrameWriter many;
  for (std::size_t at = 0; at < kLargest; at += 64) {
    many.block(0, 64,
               Bytes(noise.begin() + static_cast<std::ptrdiff_t>(at),
                     noise.begin() + static_cast<std::ptrdiff_t>(at + 64)),
               at + 64 == kLargest);
  }
  expect_round_trip(noise, many.frame(), 63);
  expect_same(many.frame(), kLargest, 17, 8, 1);
  expect_same(many.frame(), kLargest, 17, 1, 8);
  expect_round_trip(noise, FrameWriter().block(0, kLargest, noise).frame(), 63);
}

TEST_F(ZstdDecodeTest, LiteralsOfEveryHead) {
  for (const std::size_t size : {0U, 1U, 5U, 31U, 32U, 1000U, 4095U, 4096U, 65000U}) {
    const Bytes plain = some_data(random_, size, 0);
    for (unsigned form = 0; form < 2; ++form) {
      for (unsigned size_form = 0; size_form < 4; ++size_form) {
        const std::size_t head = form | size_form << 2 | size << (size_form % 2 == 0 ? 3 : 4);
        Bytes block;
        for (unsigned i = 0; i < (size_form == 3 ? 3 : size_form == 1 ? 2 : 1); ++i) {
          block.push_back(static_cast<std::uint8_t>(head >> 8 * i));
        }
        if (form == 0)
          block.insert(block.end(), plain.begin(), plain.end());
        else
          block.push_back(77);
        block.push_back(0);
        expect_same(FrameWriter().compressed(block).frame(), size);
        block.pop_back();
        expect_same(FrameWriter().compressed(block).frame(), size);
      }
    }
  }
  EXPECT_GT(taken_, 20U);
}

// What is held of the frame is just enough, wherever the block begins.
TEST_F(ZstdDecodeTest, LargestCompressedBlocks) {
  for (const std::size_t literals : {65467U, 65468U, 65469U}) {
    Bytes block{static_cast<std::uint8_t>(0x0C | (literals << 4 & 0xF0)),
                static_cast<std::uint8_t>(literals >> 4),
                static_cast<std::uint8_t>(literals >> 12)};
    const Bytes noise = some_data(random_, literals, 0);
    block.insert(block.end(), noise.begin(), noise.end());
    block.push_back(0);
    for (const unsigned skip : {0U, 1U, 40U, 55U, 63U}) {
      FrameWriter frame;
      frame.block(1, 60, {3}, false).compressed(block, false).block(0, 3, {1, 2, 3});
      expect_same(frame.frame(), 60 + literals + 3, skip, kPaces[skip % 3], kPaces[skip / 3 % 3]);
    }
  }
  EXPECT_EQ(taken_, 10U);
}

// Huffman-coded literals without sequences, two blocks, the second by the first one's tree.
TEST_F(ZstdDecodeTest, LiteralsWithoutATree) {
  // Symbols 0 and 1 of one bit each: weights 1, and 1 implied.
  const Bytes coded{0x42, 0xC0, 0x00, 0x80, 0x10, 0x13, 0};  // 4 literals, 3 bytes: tree, stream.
  const Bytes again{0x43, 0x40, 0x00, 0x1A, 0};              // 4 literals, 1 byte.
  expect_same(FrameWriter().compressed(coded, false).compressed(again).frame(), 8);
  expect_same(FrameWriter().compressed(coded).frame(), 4);
  EXPECT_EQ(taken_, 2U);
  expect_same(FrameWriter().compressed(again).frame(), 4);
  EXPECT_EQ(taken_, 2U);
}

unsigned literal_extra_bits(unsigned code) {
  constexpr std::array<unsigned, 9> kFirst{1, 1, 1, 1, 2, 2, 3, 3, 4};
  return code < 16 ? 0 : code < 25 ? kFirst[code - 16] : code - 19;
}

unsigned match_extra_bits(unsigned code) {
  constexpr std::array<unsigned, 11> kFirst{1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5};
  return code < 32 ? 0 : code < 43 ? kFirst[code - 32] : code - 36;
}

// Sequences of RLE tables: literal length, offset code, match length; any extra bits.
TEST_F(ZstdDecodeTest, SequencesOfEveryCode) {
  for (unsigned i = 0; i < 8000; ++i) {
    const unsigned literal_code =
        i % 4 == 0 ? test::pick(random_, 0, 36) : test::pick(random_, 0, 25);
    const unsigned offset_code =
        i % 4 == 1 ? test::pick(random_, 0, 32) : test::pick(random_, 0, 7);
    const unsigned match_code = test::pick(random_, 0, i % 4 == 2 ? 53 : 45);
    const std::size_t literals = test::pick(random_, 100, i % 8 == 0 ? 65536 : 1000);
    const unsigned sequences = test::pick(random_, 1, 3);
    Bytes block{static_cast<std::uint8_t>(0x0D | (literals << 4 & 0xF0)),
                static_cast<std::uint8_t>(literals >> 4),
                static_cast<std::uint8_t>(literals >> 12),
                static_cast<std::uint8_t>(random_()),
                static_cast<std::uint8_t>(sequences),
                0x54,
                static_cast<std::uint8_t>(literal_code),
                static_cast<std::uint8_t>(offset_code),
                static_cast<std::uint8_t>(match_code)};
    // The bits that they take, or almost.
    std::size_t bits =
        sequences * (offset_code + literal_extra_bits(literal_code) + match_extra_bits(match_code));
    if (i % 16 == 0) bits += random_() % 3;
    for (; bits >= 8; bits -= 8) {
      block.push_back(static_cast<std::uint8_t>(random_() & random_() & random_()));
    }
    block.push_back(static_cast<std::uint8_t>((1U << bits) | (random_() & ((1U << bits) - 1))));
    // The size that libzstd makes of it.
    Bytes plain(kLargest);
    const Bytes frame = FrameWriter().compressed(block).frame();
    const std::size_t size =
        ZSTD_decompress(plain.data(), plain.size(), frame.data(), frame.size());
    SCOPED_TRACE(testing::Message() << literal_code << ", " << offset_code << ", " << match_code);
    expect_same(frame, ZSTD_isError(size) != 0 ? kLargest : size);
    if (HasFailure()) return;
  }
  EXPECT_GT(taken_, 1000U);
}

TEST_F(ZstdDecodeTest, RefusesWhatIsNotOneFrameWithoutChecksum) {
  const Bytes plain = text(random_, 1000);
  const Bytes frame = compress(plain, at_level(3));
  expect_same(frame, plain.size());
  expect_same(frame, plain.size() - 1);
  expect_same(frame, plain.size() + 1);
  expect_same({}, 0);
  EXPECT_EQ(taken_, 1U);
  const std::size_t before = refused_alone_;
  expect_same(compress(plain, {{ZSTD_c_checksumFlag, 1}}), plain.size());
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  expect_same(twice, 2 * plain.size());
  Bytes skipped{0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 0};
  skipped.insert(skipped.end(), frame.begin(), frame.end());
  expect_same(skipped, plain.size());
  expect_same(FrameWriter(0x01, {0x30, 0}).block(0, 3, {1, 2, 3}).frame(), 3);  // A dictionary 0.
  EXPECT_EQ(refused_alone_ - before, 4U);
}

TEST_F(ZstdDecodeTest, CutAtEveryLengthAndEveryBitFlipped) {
  for (unsigned kind = 0; kind < 6; ++kind) {
    const std::size_t size = 150 + 130 * kind;
    Bytes frame = compress(data_of_kind(random_, size, 10 + kind), at_level(kind < 3 ? 1 : 19));
    for (std::size_t cut = 0; cut < frame.size(); ++cut) {
      expect_same(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(cut)), size,
                  static_cast<unsigned>(cut) % 64);
    }
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      frame[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      SCOPED_TRACE(testing::Message() << "kind " << kind << " bit " << bit);
      expect_same(frame, size);
      frame[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(taken_, 100U);
  EXPECT_GT(refused_, 1000U);
}

// A few seconds of mutants of frames of all kinds, and of their mutants.
TEST_F(ZstdDecodeTest, Mutants) {
  struct Case {
    Bytes frame;
    std::size_t size;
  };
  std::vector<Case> cases;
  for (unsigned i = 0; i < 40; ++i) {
    const std::size_t size = test::pick(random_, 1, i % 8 == 0 ? 8000 : 1500);
    const Bytes plain = data_of_kind(random_, size, i);
    std::vector<std::size_t> ends;
    if (i % 3 == 0) ends = {size / 3, size / 2};
    cases.push_back({compress(plain, at_level(1 + static_cast<int>(i) % 19), ends), size});
  }
  for (unsigned i = 0; i < 12000; ++i) {
    Case mutant = cases[random_() % cases.size()];
    for (unsigned hits = test::pick(random_, 1, 3); hits > 0; --hits) {
      mutate(random_, mutant.frame, cases[random_() % cases.size()].frame);
    }
    if (random_() % 50 == 0) mutant.size = test::pick(random_, 0, 3000);
    SCOPED_TRACE(testing::Message() << "mutant " << i);
    expect_same(mutant.frame, mutant.size, i % 64, kPaces[i % 2], kPaces[i / 2 % 2]);
    if (HasFailure()) return;
    if (cases.size() < 400 && random_() % 8 == 0) cases.push_back(mutant);
  }
  std::printf("%zu taken, %zu refused, %zu of them not by libzstd\n", taken_,
              refused_ + refused_alone_, refused_alone_);
}

// Random content behind good heads: descriptions of trees and tables, and streams.
TEST_F(ZstdDecodeTest, NoiseNeverHangs) {
  for (unsigned i = 0; i < 6000; ++i) {
    Bytes block(test::pick(random_, 2, 300));
    for (std::uint8_t& byte : block) {
      byte = static_cast<std::uint8_t>(i % 2 == 0 ? random_() : random_() & random_() & random_());
    }
    if (i % 3 == 0) std::fill(block.begin() + 1, block.end(), 255);
    if (i % 5 < 3) {  // Huffman-coded, of a fitting size.
      const std::size_t literals = test::pick(random_, 6, 200);
      const std::size_t head = 2U | (i % 5 == 0 ? 0U : 4U) | literals << 4 |
                               std::min<std::size_t>(block.size(), 1023) * 3 / 4 << 14;
      for (unsigned k = 0; k < std::min<std::size_t>(3, block.size()); ++k) {
        block[k] = static_cast<std::uint8_t>(head >> 8 * k);
      }
    }
    expect_same(FrameWriter().compressed(block).frame(), test::pick(random_, 0, 2000), i % 64);
    if (HasFailure()) return;
  }
}

TEST_F(ZstdDecodeTest, ResetInFlight) {
  const Bytes plain = text(random_, 5000);
  const Bytes frame = compress(plain, at_level(3));
  for (const unsigned cycles : {1U, 20U, 100U, 300U, 700U, 1500U}) {
    bench_.abandon(frame, plain.size(), cycles);
    expect_round_trip(plain, frame);
  }
}

// What libzstd makes frames of; literals and literal lengths by RLE are made by hand above.
TEST_F(ZstdDecodeTest, AllPartsOfFrames) {
  for (unsigned i = 0; i < 150; ++i) {
    const std::size_t size = test::pick(random_, 20, 20000);
    Bytes plain = data_of_kind(random_, size, i);
    if (i % 4 == 1)
      std::fill(plain.begin() + static_cast<std::ptrdiff_t>(size / 2), plain.end(), 7);
    const std::vector<std::size_t> ends =
        i % 2 == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{size / 3, size / 2};
    expect_same(compress(plain, at_level(1 + static_cast<int>(i) % 19), ends), size);
    if (HasFailure()) return;
  }
  for (const char* const part : {"block: raw",
                                 "block: RLE",
                                 "block: compressed",
                                 "literals: raw",
                                 "literals: Huffman",
                                 "literals: treeless",
                                 "streams: 1",
                                 "streams: 4",
                                 "weights: direct",
                                 "weights: FSE",
                                 "literal lengths: predefined",
                                 "literal lengths: FSE",
                                 "literal lengths: repeated",
                                 "offsets: predefined",
                                 "offsets: RLE",
                                 "offsets: FSE",
                                 "offsets: repeated",
                                 "match lengths: predefined",
                                 "match lengths: RLE",
                                 "match lengths: FSE",
                                 "match lengths: repeated",
                                 "repeated offset 0",
                                 "repeated offset 1",
                                 "repeated offset 2",
                                 "repeated offset 3",
                                 "sequences: none",
                                 "tree of 11 bits"}) {
    EXPECT_GT(parts_[part], 0U) << part;
  }
}

// The compressed sections of pages (FORMATS.md, PLANES_ZSTD), where they lie in their blocks.
TEST_F(ZstdDecodeTest, SectionsOfPages) {
  constexpr std::size_t kDim = 128;
  constexpr std::size_t kSections = 11;  // References, exponents, sign, seven bits of mantissa.
  const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = kDim};
  std::uint64_t all_bytes = 0;
  std::uint64_t all_cycles = 0;
  for (const test::Distribution distribution : test::kDistributions) {
    const auto rows = test::to_rows(shape, test::make_block(distribution, kDim, 1));
    const auto encoded = test::encode_block(Codec::kPlanesZstd, shape, rows);
    std::array<std::uint16_t, kSections> sizes;
    std::memcpy(sizes.data(), encoded.data(), sizeof(sizes));
    std::size_t begin = sizeof(sizes);
    std::uint64_t bytes = 0;
    std::uint64_t cycles = 0;
    for (std::size_t section = 0; section < kSections; ++section) {
      const std::size_t plain_size = section == 0 ? kDim : section < 3 ? 32 * kDim : 8 * kDim;
      const std::size_t size = sizes[section];
      if (size > 0 && size < plain_size) {
        Bytes frame(size);
        std::memcpy(frame.data(), &encoded[begin], size);
        const Bench::Decoded decoded = bench_.decode(frame, plain_size, begin % kBurst);
        ASSERT_TRUE(decoded.plain.has_value());
        ASSERT_EQ(decoded.plain, decode_by_libzstd(frame, plain_size));
        bytes += plain_size;
        cycles += decoded.cycles;
      }
      begin += size;
    }
    ASSERT_EQ(begin, encoded.size());
    all_bytes += bytes;
    all_cycles += cycles;
    if (bytes == 0) continue;
    const double rate = static_cast<double>(bytes) / static_cast<double>(cycles);
    std::printf("%s: %lu bytes of %zu, %.2f per cycle\n",
                std::string(test::name(distribution)).c_str(), static_cast<unsigned long>(bytes),
                rows.size(), rate);
    if (distribution == test::Distribution::kGaussian) {
      EXPECT_GT(rate, 4);
    }
  }
  std::printf("all: %.2f per cycle\n",
              static_cast<double>(all_bytes) / static_cast<double>(all_cycles));
}

TEST_F(ZstdDecodeTest, Speed) {
  const auto tell = [&](const char* name, const Bytes& plain, const Parameters& parameters) {
    const Bytes frame = compress(plain, parameters);
    const Bench::Decoded decoded = bench_.decode(frame, plain.size());
    EXPECT_EQ(decoded.plain, plain);
    const double rate = static_cast<double>(plain.size()) / static_cast<double>(decoded.cycles);
    std::printf("%s: %zu of %zu bytes, %.2f bytes per cycle\n", name, frame.size(), plain.size(),
                rate);
    return rate;
  };
  for (const std::size_t size : {kLargest, std::size_t{4096}}) {
    EXPECT_GT(tell("noise", some_data(random_, size, 0), of_pages()), size == kLargest ? 15 : 10);
    EXPECT_GT(tell("zeros", Bytes(size, 0), of_pages()), 7);
    EXPECT_GT(tell("skewed", skewed_data(random_, size, 1), of_pages()), 3);
    EXPECT_GT(tell("text, level 1", text(random_, size), of_pages()), 2);
    EXPECT_GT(tell("text, level 19", text(random_, size), at_level(19)), 2);
    EXPECT_GT(tell("some matches", some_data(random_, size, 2), of_pages()), 3);
    EXPECT_GT(tell("many matches", some_data(random_, size, 6), of_pages()), 3);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

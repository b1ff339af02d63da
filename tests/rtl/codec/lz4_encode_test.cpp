// nkv_lz4_encode: liblz4 makes the plain bytes of its blocks, which end as the format asks for and
// are no larger than liblz4 promises.
#include <gtest/gtest.h>
#include <lz4.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "Vnkv_lz4_encode.h"
#include "blocks.hpp"
#include "burst_stream.hpp"
#include "codec/lz4_reference.hpp"
#include "codec_data.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

class Lz4EncodeTest : public testing::Test {
 protected:
  Lz4EncodeTest() { module_.reset(); }

  struct Encoded {
    Bytes block;
    std::uint64_t cycles = 0;
  };

  Encoded encode(const Bytes& plain, unsigned skip = 0, unsigned in_pace = 8,
                 unsigned out_pace = 8) {
    const Bytes input = in_bursts(plain, skip);
    EXPECT_TRUE(module_.tick_until([&] { return module_->start_ready_o != 0; }, 10));
    module_->start_valid_i = 1;
    module_->skip_i = static_cast<std::uint8_t>(skip);
    module_->plain_bytes_i = static_cast<std::uint32_t>(plain.size());
    module_.tick();
    module_->start_valid_i = 0;

    Streamed streamed = stream(module_, random_, input, in_pace, out_pace, 2000 + 16 * input.size(),
                               [&](const Streamed& before) {
                                 EXPECT_TRUE(before.has_ended || module_->out_bytes_o == kBurst);
                               });
    EXPECT_TRUE(streamed.has_ended);
    EXPECT_EQ(module_->bytes_o, streamed.out.size());
    Encoded result{.block = std::move(streamed.out), .cycles = streamed.cycles};
    leave(module_);
    return result;
  }

  Encoded expect_round_trip(const Bytes& plain, unsigned skip = 0, unsigned in_pace = 8,
                            unsigned out_pace = 8) {
    const Encoded encoded = encode(plain, skip, in_pace, out_pace);
    const Bytes& block = encoded.block;
    EXPECT_LE(block.size(),
              static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
    Bytes decoded(plain.size() + 1);
    const int size = LZ4_decompress_safe(
        reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(decoded.data()),
        static_cast<int>(block.size()), static_cast<int>(plain.size()));
    EXPECT_EQ(size, static_cast<int>(plain.size()));
    decoded.resize(plain.size());
    EXPECT_TRUE(decoded == plain);
    if (!testing::Test::HasFailure()) {
      const Ends ends = ends_of(block);
      if (ends.has_match) {
        EXPECT_GE(ends.literals, 5U);
        EXPECT_LE(ends.last_match + 12, plain.size());
      }
    }
    return encoded;
  }

  Simulation<Vnkv_lz4_encode> module_;
  test::Random random_ = test::case_random(4);
};

TEST_F(Lz4EncodeTest, RoundTripsOfEverySizeAndSkip) {
  for (unsigned i = 0; i < 1500; ++i) {
    const std::size_t size = i < 400 ? i : test::pick(random_, 1, 6000);
    const Bytes plain = data_of_kind(random_, size, i);
    SCOPED_TRACE(testing::Message() << "round " << i << " of " << size);
    expect_round_trip(plain, i % 64, kPaces[i % 3], kPaces[i / 3 % 3]);
    if (HasFailure()) return;
  }
}

TEST_F(Lz4EncodeTest, LargestBlocks) {
  for (unsigned kind = 0; kind < 20; ++kind) {
    expect_round_trip(data_of_kind(random_, kLargest, kind));
    if (HasFailure()) return;
  }
  expect_round_trip(Bytes(kLargest, 0));
  expect_round_trip(data_of_kind(random_, kLargest - 63, 2), 63);
  // The first and the last bytes alike, as far apart as an offset tells.
  Bytes ends = some_data(random_, kLargest, 0);
  std::copy_n(ends.begin(), 200, ends.end() - 201);
  expect_round_trip(ends);
}

// Repeated bytes of every period, so long that matches reach the end of the block.
TEST_F(Lz4EncodeTest, EveryPeriodAndEnd) {
  for (std::size_t period = 1; period < 40; ++period) {
    for (std::size_t size = 1; size < 120; ++size) {
      Bytes plain(size);
      for (std::size_t i = 0; i < size; ++i) plain[i] = static_cast<std::uint8_t>(i % period);
      SCOPED_TRACE(testing::Message() << "period " << period << " of " << size);
      const Encoded encoded = expect_round_trip(plain, static_cast<unsigned>(size) % 64);
      if (HasFailure()) return;
      if (size > 60 + 2 * period) {
        EXPECT_LT(encoded.block.size(), size);
      }
    }
  }
}

TEST_F(Lz4EncodeTest, ResetInFlight) {
  const Bytes plain = text(random_, 4096);
  for (const unsigned cycles : {1U, 30U, 70U, 200U, 1000U}) {
    module_->start_valid_i = 1;
    module_->skip_i = 0;
    module_->plain_bytes_i = 4096;
    module_->in_valid_i = 1;
    module_.ticks(cycles);
    module_->start_valid_i = 0;
    module_->in_valid_i = 0;
    module_.reset();
    expect_round_trip(plain);
  }
}

TEST_F(Lz4EncodeTest, SpeedAndSizeBesideLiblz4) {
  const auto tell = [&](const std::string& name, const Bytes& plain) {
    const Encoded encoded = expect_round_trip(plain);
    const std::size_t theirs = size_by_liblz4(plain);
    const double rate = static_cast<double>(plain.size()) / static_cast<double>(encoded.cycles);
    std::printf("%s: %zu bytes to %zu (liblz4: %zu), %.2f bytes per cycle\n", name.c_str(),
                plain.size(), encoded.block.size(), theirs, rate);
    EXPECT_LE(encoded.block.size(), theirs + theirs / 10 + 64) << name;
    return rate;
  };
  EXPECT_GT(tell("noise", some_data(random_, kLargest, 0)), 6);
  EXPECT_GT(tell("zeros", Bytes(kLargest, 0)), 12);
  tell("text", text(random_, kLargest));
  tell("records", records(random_, kLargest));
  tell("skewed", skewed_data(random_, kLargest, 2));
  tell("some matches", some_data(random_, kLargest, 2));
  tell("many matches", some_data(random_, kLargest, 6));
}

// The planes of pages (FORMATS.md, PLANES_LZ4), each by itself.
TEST_F(Lz4EncodeTest, PlanesOfPages) {
  constexpr std::size_t kDim = 128;
  const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = kDim};
  for (const test::Distribution distribution : test::kDistributions) {
    const auto rows = test::to_rows(shape, test::make_block(distribution, kDim, 1));
    const auto words = test::to_words(rows);
    std::size_t ours = 0;
    std::size_t theirs = 0;
    std::uint64_t cycles = 0;
    for (unsigned bit = 16; bit-- > 0;) {
      Bytes plane(8 * kDim, 0);
      for (std::size_t channel = 0; channel < kDim; ++channel) {
        for (std::size_t token = 0; token < 64; ++token) {
          const unsigned value = words[token * kDim + channel] >> bit & 1U;
          plane[8 * channel + token / 8] |= static_cast<std::uint8_t>(value << token % 8);
        }
      }
      const Encoded encoded = expect_round_trip(plane);
      ours += std::min(encoded.block.size(), plane.size());
      theirs += std::min(size_by_liblz4(plane), plane.size());
      cycles += encoded.cycles;
    }
    std::printf("%s: 16 planes to %zu bytes (liblz4: %zu), %.2f bytes per cycle\n",
                std::string(test::name(distribution)).c_str(), ours, theirs,
                static_cast<double>(16 * 8 * kDim) / static_cast<double>(cycles));
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

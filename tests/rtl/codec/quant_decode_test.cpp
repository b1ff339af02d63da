// nkv_quant_decode: rows are the host library's, bit for bit, and what it refuses is refused.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "Vnkv_quant_decode.h"
#include "quant_bench.hpp"

namespace nearkv::rtl_test {
namespace {

class QuantDecodeTest : public testing::Test {
 protected:
  Job job(Codec codec, const BlockShape& shape, Bytes block) {
    std::optional<Bytes> rows = decoded(codec, shape, block, workspace_);
    return {codec, shape, std::move(block), std::move(rows), true};
  }

  Bytes block_of(Codec codec, const BlockShape& shape, unsigned kind) {
    const auto words = test::make_block(test::kDistributions[kind % 7], shape.dim,
                                        static_cast<std::uint32_t>(random_()));
    const Bytes rows = to_bytes(test::to_rows(shape, words));
    return encoded(codec, shape, rows, workspace_).value();
  }

  /// A block of the library, or one with any parameters and codes.
  Job some_job() {
    const Codec codec = kLossyCodecs[random_() % 3];
    const BlockShape shape = shape_of(kTensors[random_() % 2], 16 * test::pick(random_, 1, 8));
    Bytes block = block_of(codec, shape, static_cast<unsigned>(random_()));
    if (random_() % 2 == 0) {
      const bool has_bad = random_() % 4 == 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        block[i] = static_cast<std::uint8_t>(random_());
        // Parameters within the limits, and no NaN.
        const bool is_high = codec != Codec::kFp8 && i % 2 == 1 && i < groups(shape) * 4;
        if (is_high && !has_bad) block[i] &= i % 4 == 3 ? 0x7D : 0xFD;
        if (codec == Codec::kFp8 && (block[i] & 0x7F) == 0x7F && !has_bad) block[i] &= 0xF0;
      }
    }
    return job(codec, shape, std::move(block));
  }

  static std::size_t groups(const BlockShape& shape) {
    return shape.tensor == Tensor::kKeys ? shape.dim : kBlockTokens;
  }

  QuantBench<Vnkv_quant_decode> bench_;
  test::Random& random_ = bench_.random();
  CodecWorkspace workspace_;
};

TEST_F(QuantDecodeTest, EveryShape) {
  unsigned number = 0;
  for (const Codec codec : kLossyCodecs) {
    for (const Tensor tensor : kTensors) {
      for (unsigned dim = 16; dim <= kGreatestDim; dim += 16) {
        std::vector<Job> jobs;
        for (unsigned kind = 0; kind < 7; ++kind) {
          const BlockShape shape = shape_of(tensor, dim);
          jobs.push_back(job(codec, shape, block_of(codec, shape, kind)));
        }
        bench_.run(jobs, kPaces[number % 3], kPaces[number / 3 % 3]);
        ++number;
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(QuantDecodeTest, BlocksOfAllKindsOneAfterTheOther) {
  unsigned taken = 0;
  for (unsigned round = 0; round < 18; ++round) {
    std::vector<Job> jobs;
    for (unsigned i = 0; i < 40; ++i) {
      jobs.push_back(some_job());
      taken += jobs.back().output.has_value() ? 1 : 0;
    }
    bench_.run(jobs, kPaces[round % 3], kPaces[round / 3 % 3]);
    if (HasFailure()) return;
  }
  EXPECT_GT(taken, 18U * 20);
  EXPECT_LT(taken, 18U * 40);
}

// One parameter or code alone decides, wherever it stands.
TEST_F(QuantDecodeTest, OneValueIsRefused) {
  std::vector<Job> jobs;
  unsigned refused = 0;
  for (unsigned round = 0; round < 240; ++round) {
    const Codec codec = kLossyCodecs[round % 3];
    const BlockShape shape = shape_of(kTensors[round / 3 % 2], 16 * (1 + round / 6 % 8));
    Bytes block = block_of(codec, shape, 0);
    if (codec == Codec::kFp8) {
      const std::size_t at = groups(shape) + random_() % (64U * shape.dim);
      block[at] = round % 2 == 0 ? 0x7F : 0xFF;
    } else {
      const std::size_t at = 4 * (random_() % groups(shape)) + (round / 3 % 4 < 2 ? 0 : 2);
      const unsigned values[] = {0x7E80, 0xFE80, 0x7E7F, 0x8000, 0x7E81};
      block[at] = static_cast<std::uint8_t>(values[round % 5]);
      block[at + 1] = static_cast<std::uint8_t>(values[round % 5] >> 8);
    }
    jobs.push_back(job(codec, shape, std::move(block)));
    refused += jobs.back().output.has_value() ? 0 : 1;
  }
  EXPECT_GT(refused, 140U);
  EXPECT_LT(refused, 220U);
  bench_.run(jobs, 5, 5);
}

TEST_F(QuantDecodeTest, SizesAndShapesThatAreNone) {
  std::vector<Job> jobs;
  for (unsigned round = 0; round < 60; ++round) {
    jobs.push_back(some_job());
    Job wrong = some_job();
    spoil(wrong, round, random_);
    jobs.push_back(wrong);
  }
  for (const unsigned pace : kPaces) bench_.run(jobs, pace, 8);
}

TEST_F(QuantDecodeTest, ResetInFlight) {
  for (const unsigned cycles : {1U, 5U, 9U, 20U, 60U, 200U, 235U}) {
    const BlockShape shape = shape_of(Tensor::kKeys, 112);
    bench_.abandon(job(Codec::kFp8, shape, block_of(Codec::kFp8, shape, 0)), cycles);
    bench_.run({some_job(), some_job(), some_job()});
    if (HasFailure()) return;
  }
}

TEST_F(QuantDecodeTest, Speed) {
  for (const Tensor tensor : kTensors) {
    for (unsigned dim = 16; dim <= kGreatestDim; dim += 16) {
      for (const Codec codec : kLossyCodecs) {
        const BlockShape shape = shape_of(tensor, dim);
        const Speed speed = speed_of(bench_, job(codec, shape, block_of(codec, shape, 0)));
        std::printf("%s: %.2f bytes per cycle, alone %.2f\n", test::describe(codec, shape).c_str(),
                    speed.steady, speed.alone);
        EXPECT_GE(speed.steady, 0.95 * kBurst);
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// nkv_quant_encode: blocks are the host library's, byte for byte, and what it refuses is refused.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "Vnkv_quant_encode.h"
#include "quant_bench.hpp"

namespace nearkv::rtl_test {
namespace {

class QuantEncodeTest : public testing::Test {
 protected:
  Job job(Codec codec, const BlockShape& shape, const test::Words& words) {
    Bytes rows = to_bytes(test::to_rows(shape, words));
    std::optional<Bytes> block = encoded(codec, shape, rows, workspace_);
    return {codec, shape, std::move(rows), std::move(block), false};
  }

  Job some_job() {
    const Codec codec = kLossyCodecs[random_() % 3];
    const BlockShape shape = shape_of(kTensors[random_() % 2], 16 * test::pick(random_, 1, 8));
    const auto kind = test::kDistributions[random_() % test::kDistributions.size()];
    return job(codec, shape,
               test::make_block(kind, shape.dim, static_cast<std::uint32_t>(random_())));
  }

  QuantBench<Vnkv_quant_encode> bench_;
  test::Random& random_ = bench_.random();
  CodecWorkspace workspace_;
};

TEST_F(QuantEncodeTest, EveryShapeAndDistribution) {
  unsigned seed = 0;
  unsigned taken = 0;
  for (const Codec codec : kLossyCodecs) {
    for (const Tensor tensor : kTensors) {
      for (unsigned dim = 16; dim <= kGreatestDim; dim += 16) {
        std::vector<Job> jobs;
        for (const auto kind : test::kDistributions) {
          const BlockShape shape = shape_of(tensor, dim);
          jobs.push_back(job(codec, shape, test::make_block(kind, dim, ++seed)));
          taken += jobs.back().output.has_value() ? 1 : 0;
        }
        bench_.run(jobs, kPaces[seed % 3], kPaces[seed / 3 % 3]);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(taken, seed / 2);
  EXPECT_LT(taken, seed);
}

TEST_F(QuantEncodeTest, BlocksOfAllKindsOneAfterTheOther) {
  for (unsigned round = 0; round < 9; ++round) {
    std::vector<Job> jobs;
    for (unsigned i = 0; i < 40; ++i) jobs.push_back(some_job());
    bench_.run(jobs, kPaces[round % 3], kPaces[round / 3]);
    if (HasFailure()) return;
  }
}

// Elements that lie halfway between two codes, on a grid that the ends of the group stand on.
TEST_F(QuantEncodeTest, ElementsBetweenCodes) {
  std::vector<Job> jobs;
  for (unsigned round = 0; round < 48; ++round) {
    const BlockShape shape = shape_of(kTensors[round % 2], 16 * (1 + round % 8));
    test::Words words(64U * shape.dim);
    for (std::uint16_t& word : words) {
      // Small integers and halves of them: 7 bits of a fraction hold them.
      const float value = static_cast<float>(random_() % 256) / 2 - static_cast<float>(round);
      word = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    }
    jobs.push_back(job(kLossyCodecs[round % 3], shape, words));
  }
  bench_.run(jobs);
}

// One element alone decides, wherever it stands.
TEST_F(QuantEncodeTest, OneElementIsRefused) {
  std::vector<Job> jobs;
  for (unsigned round = 0; round < 96; ++round) {
    const BlockShape shape = shape_of(kTensors[round % 2], 16 * (1 + round / 2 % 8));
    test::Words words = test::make_block(test::Distribution::kGaussian, shape.dim, round);
    const std::uint16_t bad[] = {0x7F80, 0xFF80, 0x7FC1, 0x7E80, 0xFE80, 0x7E7F};
    words[random_() % words.size()] = bad[round % 6];
    jobs.push_back(job(kLossyCodecs[round / 6 % 3], shape, words));
  }
  bench_.run(jobs, 5, 5);
}

TEST_F(QuantEncodeTest, SizesAndShapesThatAreNone) {
  std::vector<Job> jobs;
  for (unsigned round = 0; round < 60; ++round) {
    jobs.push_back(some_job());
    Job wrong = some_job();
    spoil(wrong, round, random_);
    jobs.push_back(wrong);
  }
  for (const unsigned pace : kPaces) bench_.run(jobs, pace, 8);
}

TEST_F(QuantEncodeTest, ResetInFlight) {
  for (const unsigned cycles : {1U, 20U, 200U, 262U, 300U, 420U, 430U, 500U, 700U}) {
    const BlockShape shape = shape_of(Tensor::kKeys, 112);
    const auto words = test::make_block(test::Distribution::kHeavyTail, shape.dim, cycles);
    bench_.abandon(job(Codec::kInt4, shape, words), cycles);
    bench_.run({some_job(), some_job(), some_job()});
    if (HasFailure()) return;
  }
}

TEST_F(QuantEncodeTest, Speed) {
  for (const Tensor tensor : kTensors) {
    for (unsigned dim = 16; dim <= kGreatestDim; dim += 16) {
      for (const Codec codec : kLossyCodecs) {
        const auto words = test::make_block(test::Distribution::kGaussian, dim, dim);
        const Speed speed = speed_of(bench_, job(codec, shape_of(tensor, dim), words));
        std::printf("%s: %.2f bytes per cycle, alone %.2f\n",
                    test::describe(codec, shape_of(tensor, dim)).c_str(), speed.steady,
                    speed.alone);
        const bool is_narrow = tensor == Tensor::kValues && dim < 32;
        EXPECT_GE(speed.steady, (is_narrow ? 0.49 : 0.95) * kBurst);
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// Attention over blocks in an engine's memory, against double precision and on every layout.
#include "nearkv/block_attention.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "block_engine.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

/// An engine with requests of these lengths, and a step of so many queries of each.
struct Engine {
  Engine(const BlockShape& shape, const std::vector<std::size_t>& lengths,
         const std::vector<std::size_t>& queries, Random& random)
      : blocks(shape, room(shape, lengths), &random),
        step(blocks, admitted(&blocks, lengths, queries), &random) {}

  static std::size_t room(const BlockShape& shape, const std::vector<std::size_t>& lengths) {
    std::size_t count = 1;
    for (const std::size_t length : lengths) count += shape.blocks_of(length);
    return count;
  }
  static std::vector<EngineStep::Asked> admitted(BlockEngine* engine,
                                                 const std::vector<std::size_t>& lengths,
                                                 const std::vector<std::size_t>& queries) {
    std::vector<EngineStep::Asked> asked;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      asked.push_back({engine->admit(lengths[i]), queries[i]});
    }
    return asked;
  }

  BlockEngine blocks;
  EngineStep step;
};

/// Every shape that a kernel has a path of its own for.
std::vector<BlockShape> all_shapes() {
  std::vector<BlockShape> shapes;
  const auto add = [&](std::uint8_t dtype, BlockLayout layout, std::size_t dim, std::size_t group,
                       std::size_t block) {
    shapes.push_back({dtype, layout, 2, group, dim, block});
  };
  constexpr std::array kLayouts = {BlockLayout::kRows, BlockLayout::kChannelMajor,
                                   BlockLayout::kTiles};
  for (const BlockLayout layout : kLayouts) {
    for (const std::size_t dim : {32U, 64U, 80U, 96U, 128U, 192U, 256U, 576U}) {
      add(NKV_DTYPE_BF16, layout, dim, 3, 32);
    }
    for (std::size_t group = 1; group <= 17; ++group) add(NKV_DTYPE_BF16, layout, 64, group, 64);
    for (const std::size_t block : {32U, 64U, 96U, 128U, 160U}) {
      add(NKV_DTYPE_BF16, layout, 128, 4, block);
    }
  }
  for (const BlockLayout layout : {BlockLayout::kRows, BlockLayout::kChannelMajor}) {
    for (const std::size_t block : {16U, 48U, 80U}) add(NKV_DTYPE_BF16, layout, 64, 2, block);
    for (const std::uint8_t dtype : {NKV_DTYPE_FP16, NKV_DTYPE_FP32}) {
      for (const std::size_t dim : {64U, 80U, 128U}) add(dtype, layout, dim, 5, 32);
    }
  }
  for (const bool heads_adjoin : {true, false}) {
    shapes.push_back({NKV_DTYPE_BF16, BlockLayout::kRows, 5, 8, 64, 32, heads_adjoin});
  }
  return shapes;
}

TEST(BlockAttention, IsExactOnEveryShape) {
  std::uint64_t number = 0;
  for (const BlockShape& shape : all_shapes()) {
    Random random = case_random(number++);
    SCOPED_TRACE(shape.name());
    Engine engine(shape, {1, 33, 130, 257, 70}, {1, 1, 1, 1, 8}, random);
    BlockBatch batch;
    ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
    EXPECT_EQ(batch.queries(), 12U);
    ASSERT_EQ(engine.step.attend(&batch, usual_attention(shape)), Status::kOk);
    engine.step.expect_exact(usual_attention(shape));
  }
}

TEST(BlockAttention, WindowsAndSoftCapsHideAndBend) {
  for (const BlockLayout layout :
       {BlockLayout::kRows, BlockLayout::kChannelMajor, BlockLayout::kTiles}) {
    for (const std::uint32_t window : {1U, 5U, 64U, 100U, 4096U}) {
      for (const float soft_cap : {0.0F, 20.0F}) {
        Random random = case_random(window);
        const BlockShape shape{NKV_DTYPE_BF16, layout};
        SCOPED_TRACE("layout " + std::to_string(static_cast<int>(layout)) + ", window " +
                     std::to_string(window) + ", soft_cap " + std::to_string(soft_cap));
        BlockAttention attention = usual_attention(shape);
        attention.window = window;
        attention.soft_cap = soft_cap;
        Engine engine(shape, {3, 200, 131}, {1, 8, 1}, random);
        BlockBatch batch;
        ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
        ASSERT_EQ(engine.step.attend(&batch, attention), Status::kOk);
        engine.step.expect_exact(attention);
      }
    }
  }
}

TEST(BlockAttention, PortableKernelsBendToo) {
  Random random = case_random(1);
  const BlockShape shape{NKV_DTYPE_FP16, BlockLayout::kChannelMajor};
  BlockAttention attention = usual_attention(shape);
  attention.window = 70;
  attention.soft_cap = 20;
  Engine engine(shape, {3, 200, 131}, {1, 1, 1}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
  ASSERT_EQ(engine.step.attend(&batch, attention), Status::kOk);
  engine.step.expect_exact(attention);
}

TEST(BlockAttention, LongRequestsAreSplitAmongThreads) {
  for (const std::uint32_t window : {0U, 1500U}) {
    Random random = case_random(window);
    const BlockShape shape{NKV_DTYPE_BF16, BlockLayout::kChannelMajor};
    BlockAttention attention = usual_attention(shape);
    attention.window = window;
    Engine engine(shape, {5000, 40, 1800}, {1, 1, 1}, random);
    BlockBatch batch;
    ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
    ASSERT_EQ(engine.step.attend(&batch, attention, four_threads()), Status::kOk);
    engine.step.expect_exact(attention);
  }
}

TEST(BlockAttention, AStepIsUsedByManyLayers) {
  Random random = case_random(2);
  const BlockShape shape{NKV_DTYPE_BF16, BlockLayout::kRows};
  const BlockShape other{NKV_DTYPE_BF16, BlockLayout::kRows, 1, 8, 128};
  Engine layer(shape, {300, 2000}, {1, 1}, random);
  Engine of_another_shape(other, {300, 2000}, {1, 1}, random);
  BlockBatch batch;
  ASSERT_EQ(layer.step.begin(&batch), Status::kOk);
  BlockAttention with_window = usual_attention(shape);
  with_window.window = 700;
  for (const BlockAttention& attention : {usual_attention(shape), with_window}) {
    for (const ThreadTeam& team : {ThreadTeam{}, four_threads(), ThreadTeam{}}) {
      ASSERT_EQ(layer.step.attend(&batch, attention, team), Status::kOk);
      layer.step.expect_exact_request(1, attention);
    }
  }
  ASSERT_EQ(of_another_shape.step.begin(&batch), Status::kOk);
  ASSERT_EQ(of_another_shape.step.attend(&batch, usual_attention(other), four_threads()),
            Status::kOk);
  of_another_shape.step.expect_exact_request(0, usual_attention(other));
}

TEST(BlockAttention, ThreadsThatDoNotComeAreNotWaitedFor) {
  Random random = case_random(8);
  const BlockShape shape{NKV_DTYPE_BF16, BlockLayout::kRows};
  Engine layer(shape, {300, 2000, 40}, {1, 1, 1}, random);
  BlockBatch batch;
  ASSERT_EQ(layer.step.begin(&batch), Status::kOk);
  for (const ThreadTeam& team : teams_of_fewer_threads()) {
    layer.step.forget_answers();
    ASSERT_EQ(layer.step.attend(&batch, usual_attention(shape), team), Status::kOk);
    layer.step.expect_exact(usual_attention(shape));
  }
}

TEST(BlockAttention, QueriesOfOneRequestSeeUpToThemselves) {
  Random random = case_random(3);
  const BlockShape shape{NKV_DTYPE_BF16, BlockLayout::kChannelMajor};
  Engine engine(shape, {100, 65, 90}, {4, 0, 9}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.step.begin(&batch, 8), Status::kOk);
  EXPECT_EQ(batch.queries(), 4U);
  ASSERT_EQ(engine.step.attend(&batch, usual_attention(shape)), Status::kOk);
  engine.step.expect_exact_request(0, usual_attention(shape));
  EXPECT_TRUE(engine.step.is_untouched(2)) << "a request with too many queries is left out";
}

TEST(BlockAttention, QueriesThatSeeNothingOfARunAddNothing) {
  const auto expect_exact_on_threads = [](const BlockShape& shape, std::size_t length,
                                          std::size_t queries, std::uint32_t window) {
    Random random = case_random(7);
    BlockAttention attention = usual_attention(shape);
    attention.window = window;
    Engine engine(shape, {length}, {queries}, random);
    BlockBatch batch;
    ASSERT_EQ(engine.step.begin(&batch, 32), Status::kOk);
    ASSERT_EQ(engine.step.attend(&batch, attention, four_threads()), Status::kOk);
    engine.step.expect_exact(attention, 32);
  };
  // Threads get tokens [0, 16) and [16, 33): the first queries are older than the latter.
  expect_exact_on_threads({NKV_DTYPE_BF16, BlockLayout::kRows, 1, 1, 64, 16}, 33, 32, 0);
  // The first run is [121, 128), which lies before the window of the last query.
  expect_exact_on_threads({NKV_DTYPE_BF16, BlockLayout::kRows, 2, 4, 64, 128}, 640, 8, 512);
}

/// What IEEE arithmetic makes of a key or value of infinity or NaN among a request's tokens.
void expect_spread(const EngineStep& step, const BlockShape& shape, BlockEngine::Tensor tensor,
                   double value) {
  for (std::size_t head = 0; head < shape.group; ++head) {
    SCOPED_TRACE("head " + std::to_string(head));
    const std::vector<float> output = step.output_of(0, head);
    const double score = step.query_of(0, head)[BlockEngine::kSetChannel] * value;
    for (std::size_t c = 0; c < shape.dim; ++c) {
      const bool is_lost = tensor == BlockEngine::Tensor::kValues
                               ? c == BlockEngine::kSetChannel
                               : !(score < 0);  // Of -inf nothing is left but a weight of zero.
      EXPECT_EQ(std::isfinite(output[c]), !is_lost) << "channel " << c;
    }
  }
}

TEST(BlockAttention, WhatIsNotFiniteStaysInItsRequestAndHead) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using Tensor = BlockEngine::Tensor;
  for (const BlockShape& shape : std::array{
           BlockShape{NKV_DTYPE_BF16, BlockLayout::kRows},
           BlockShape{NKV_DTYPE_BF16, BlockLayout::kChannelMajor},
           BlockShape{NKV_DTYPE_BF16, BlockLayout::kTiles},
           BlockShape{NKV_DTYPE_FP16, BlockLayout::kRows},
           BlockShape{NKV_DTYPE_FP16, BlockLayout::kChannelMajor},
           BlockShape{NKV_DTYPE_FP32, BlockLayout::kRows},
       }) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (const double value : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
        SCOPED_TRACE(shape.name() + (tensor == Tensor::kKeys ? ", key " : ", value ") +
                     std::to_string(value));
        Random random = case_random(4);
        Engine engine(shape, {120, 120}, {1, 1}, random);
        engine.blocks.set(0, 70, tensor, value);
        BlockBatch batch;
        ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
        ASSERT_EQ(engine.step.attend(&batch, usual_attention(shape)), Status::kOk);
        expect_spread(engine.step, shape, tensor, value);
        engine.step.expect_exact_request(0, usual_attention(shape), shape.group);
        engine.step.expect_exact_request(1, usual_attention(shape));
      }
    }
  }
}

TEST(BlockAttention, TablesThatNameNoBlockAreRefused) {
  Random random = case_random(5);
  const BlockShape shape;
  for (const std::int32_t block : {-1, 1000}) {
    Engine engine(shape, {120, 120}, {1, 1}, random);
    engine.step.blocks(0)[1] = block;
    BlockBatch batch;
    ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
    EXPECT_EQ(engine.step.attend(&batch, usual_attention(shape)), Status::kBadPage);
    EXPECT_TRUE(engine.step.is_untouched(0) && engine.step.is_untouched(1));
  }
}

TEST(BlockAttention, StepsThatDoNotFitAreRefused) {
  BlockBatch batch;
  std::string reason;
  const std::vector<std::int32_t> table(8, 0);
  const auto begin = [&](std::vector<std::int32_t> starts, std::vector<std::int32_t> lengths) {
    return batch.begin_step(starts, lengths, {table.data(), 4, 4}, 32, 8, &reason);
  };
  EXPECT_EQ(begin({0, 1, 2}, {128, 3}), Status::kOk);
  EXPECT_EQ(begin({0, 1}, {128, 3}), Status::kBadArgument);
  EXPECT_EQ(begin({0, 3}, {2}), Status::kBadArgument) << "more queries than tokens";
  EXPECT_EQ(begin({0, -1}, {2}), Status::kBadArgument);
  EXPECT_EQ(begin({0, 1}, {129}), Status::kBadArgument) << "more tokens than blocks";
  EXPECT_NE(reason.find("block table"), std::string::npos) << reason;
  EXPECT_EQ(batch.queries(), 0U);
}

TEST(BlockAttention, CachesWithoutAKernelAreRefused) {
  Random random = case_random(6);
  Engine engine(BlockShape{}, {40}, {1}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.step.begin(&batch), Status::kOk);
  const auto refused = [&](auto&& change) {
    BlockCache cache = engine.blocks.cache();
    change(cache);
    BlockQueries queries;
    queries.tokens = queries.group = 1;
    std::string reason;
    const Status status = batch.attend(cache, {}, queries, {}, &reason);
    EXPECT_FALSE(reason.empty());
    return status;
  };
  EXPECT_EQ(refused([](BlockCache& cache) { cache.dtype = NKV_DTYPE_INT8; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.head_dim = 40; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.head_dim = 592; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.block_tokens = 24; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.block_tokens = 64; }), Status::kBadArgument);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.keys = nullptr; }), Status::kBadArgument);
}

TEST(BlockAttention, TheTeamOfThisProcessIsOneThreadWithoutOpenMP) {
  const ThreadTeam team = openmp_team();
  EXPECT_EQ(team.members, 1U);
  EXPECT_EQ(team.run, nullptr);
}

}  // namespace
}  // namespace nearkv::test

// Attention by codes over blocks in an engine's memory, beside the same commands over pages that
// hold the same rows.
#include "nearkv/block_codes.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "attend/code_speed.hpp"
#include "coded_engine.hpp"

namespace nearkv::test {
namespace {

std::vector<std::int8_t> some_gains(const BlockShape& shape) {
  std::vector<std::int8_t> gains(shape.kv_heads * shape.dim);
  for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = static_cast<std::int8_t>(7 * i % 23);
  return gains;
}

struct Case {
  BlockShape shape;
  std::uint32_t window = 0;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::size_t dim : {64U, 96U, 128U}) {
    for (const std::size_t group : {1U, 3U, 4U}) {
      for (const std::size_t block : {64U, 128U}) {
        const bool adjoins = group != 3;
        cases.push_back({{NKV_DTYPE_BF16, BlockLayout::kRows, 2, group, dim, block, adjoins}});
      }
    }
  }
  cases.push_back({{NKV_DTYPE_BF16, BlockLayout::kRows, 1, 8, 256, 192}});
  cases.push_back({{NKV_DTYPE_BF16, BlockLayout::kRows, 3, 3, 64, 64}, 2200});
  return cases;
}

TEST(BlockCodesTest, AnswersAreThoseOfPagesWithTheSameRows) {
  std::uint64_t number = 0;
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(one.shape.name() + ", window " + std::to_string(one.window));
    Random random = case_random(number++);
    const std::vector<std::int8_t> gains = some_gains(one.shape);
    CodedEngine coded(one.shape, 1 + one.shape.blocks_of(kLong), &random, gains);
    const std::size_t request = coded.admit(kLong);
    EngineStep step(coded.engine, {{request, 1}}, &random);
    BlockBatch batch;
    ASSERT_EQ(step.begin(&batch), Status::kOk);
    for (BlockAttention attention : {coded.bounded(), coded.tail(), coded.bounded(0.001F)}) {
      attention.window = one.window;
      ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
      expect_as_pages(coded, step, request, 0, 1, attention, gains);
    }
    const BlockCodes::Counts counts = coded.codes->counts();
    EXPECT_EQ(counts.approximate + counts.exact, 3 * one.shape.kv_heads);
    EXPECT_GE(counts.approximate, one.shape.kv_heads);
    const std::size_t seen = one.window == 0 ? kLong : one.window + NKV_PAGE_TOKENS;
    EXPECT_LE(counts.pages, seen / NKV_PAGE_TOKENS * one.shape.kv_heads);
  }
}

TEST(BlockCodesTest, TailOfAllTokensIsExact) {
  Random random = case_random(1);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 50, &random);
  const std::size_t request = coded.admit(kLong);
  EngineStep step(coded.engine, {{request, 1}}, &random);
  BlockBatch batch;
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  const BlockAttention attention = coded.tail(kLong);
  ASSERT_EQ(step.attend(&batch, attention), Status::kOk);
  step.expect_exact(usual_attention(coded.engine.shape()));
  EXPECT_EQ(coded.codes->counts().approximate, 2U);
}

TEST(BlockCodesTest, ShortRequestsAndCappedScoresAreReadExactly) {
  Random random = case_random(2);
  CodedEngine coded({.kv_heads = 2, .group = 4, .dim = 64, .block_tokens = 64}, 200, &random);
  const std::size_t few = coded.admit(kLeastApproximateTokens - 1);
  const std::size_t one = coded.admit(1);
  const std::size_t many = coded.admit(kLong);
  BlockBatch batch;
  EngineStep step(coded.engine, {{few, 1}, {one, 1}}, &random);
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  ASSERT_EQ(step.attend(&batch, coded.bounded(), four_threads()), Status::kOk);
  step.expect_exact(usual_attention(coded.engine.shape()));

  EngineStep capped(coded.engine, {{many, 1}}, &random);
  ASSERT_EQ(capped.begin(&batch), Status::kOk);
  BlockAttention attention = coded.bounded();
  attention.soft_cap = 20;
  ASSERT_EQ(capped.attend(&batch, attention, four_threads()), Status::kOk);
  capped.expect_exact(attention);
  EXPECT_EQ(coded.codes->counts().approximate + coded.codes->counts().exact, 0U);
  EXPECT_EQ(coded.codes->counts().pages, 0U);
}

TEST(BlockCodesTest, RequestsOfABatchAreAnsweredAsIfAlone) {
  Random random = case_random(3);
  CodedEngine coded({.kv_heads = 2, .group = 4, .dim = 64, .block_tokens = 128}, 200, &random);
  const std::size_t longest = coded.admit(2 * kLong);
  const std::size_t brief = coded.admit(300);
  const std::size_t other = coded.admit(kLong);
  // The oldest of its queries sees too few tokens for codes, the others see enough.
  const std::size_t guessing = coded.admit(kLeastApproximateTokens + 2);
  const std::vector<EngineStep::Asked> asked = {
      {longest, 1}, {brief, 2}, {other, 3}, {guessing, 5}};
  EngineStep step(coded.engine, asked, &random);
  BlockBatch batch;
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  const BlockAttention attention = coded.tail();
  ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
  expect_as_pages(coded, step, longest, 0, 1, attention);
  step.expect_exact_request(1, usual_attention(coded.engine.shape()));
  expect_as_pages(coded, step, other, 3, 3, attention);
  for (const std::size_t i : {0U, 2U}) {  // Exact sums depend on how they are split.
    EngineStep alone = step.alone(i);
    BlockBatch batch_of_one;
    ASSERT_EQ(alone.begin(&batch_of_one), Status::kOk);
    ASSERT_EQ(alone.attend(&batch_of_one, attention), Status::kOk);
    EXPECT_EQ(alone.answer(0), step.answer(i)) << "request " << i;
  }
  EXPECT_EQ(coded.codes->counts().exact, 0U);
}

TEST(BlockCodesTest, ThreadsThatDoNotComeAreNotWaitedFor) {
  Random random = case_random(12);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 200, &random);
  const std::size_t longest = coded.admit(2 * kLong);
  const std::size_t brief = coded.admit(300);
  EngineStep step(coded.engine, {{brief, 1}, {longest, 1}}, &random);
  BlockBatch batch;
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  for (const ThreadTeam& team : teams_of_fewer_threads()) {
    step.forget_answers();
    ASSERT_EQ(step.attend(&batch, coded.tail(), team), Status::kOk);
    step.expect_exact_request(0, usual_attention(coded.engine.shape()));
    expect_as_pages(coded, step, longest, 1, 1, coded.tail());
  }
}

TEST(BlockCodesTest, ThreadsThatHelpChangeNoBit) {
  Random random = case_random(10);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 400, &random);
  const std::size_t longest = coded.admit(7 * kLong);
  const std::size_t brief = coded.admit(300);
  const std::size_t other = coded.admit(kLong);
  EngineStep step(coded.engine, {{other, 1}, {brief, 1}, {longest, 1}}, &random);
  BlockBatch batch;
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  for (const BlockAttention& attention : {coded.tail(), coded.bounded(), coded.bounded(0.001F)}) {
    ASSERT_EQ(step.attend(&batch, attention), Status::kOk);
    const std::vector<std::byte> of_one_thread[] = {step.answer(0), step.answer(2)};
    for (int i = 0; i < 5; ++i) {
      step.forget_answers();
      ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
      EXPECT_EQ(step.answer(0), of_one_thread[0]);
      EXPECT_EQ(step.answer(2), of_one_thread[1]);
    }
  }
  const BlockCodes::Counts counts = coded.codes->counts();
  EXPECT_GT(counts.approximate, 0U);
  EXPECT_GT(counts.exact, 0U) << "bounded(0.001) is no use for random numbers";
}

TEST(BlockCodesTest, RequestsGrowAndForkAndCodesOfSharedBlocksAreShared) {
  Random random = case_random(4);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 200, &random);
  const std::size_t request = coded.admit(kLong);
  BlockBatch batch;
  const BlockAttention attention = coded.tail();
  std::uint64_t pages = 0;
  for (std::size_t step_number = 0; step_number < 70; ++step_number) {
    SCOPED_TRACE("step " + std::to_string(step_number));
    EngineStep step(coded.engine, {{request, 1}}, &random);
    ASSERT_EQ(step.begin(&batch), Status::kOk);
    ASSERT_EQ(step.attend(&batch, attention), Status::kOk);
    if (step_number % 9 == 0) expect_as_pages(coded, step, request, 0, 1, attention);
    pages = coded.codes->counts().pages;
    coded.grow(request, 1);
  }
  EXPECT_EQ(pages, (kLong + 69) / NKV_PAGE_TOKENS * 2);
  const std::size_t fork = coded.engine.fork(request);
  coded.codes->forget(coded.engine.slots(fork, (kLong + 70) / 64 * 64));
  coded.grow(fork, 5);
  EngineStep step(coded.engine, {{request, 1}, {fork, 1}}, &random);
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
  expect_as_pages(coded, step, request, 0, 1, attention);
  expect_as_pages(coded, step, fork, 1, 1, attention);
  EXPECT_EQ(coded.codes->counts().pages, pages);
}

TEST(BlockCodesTest, BothWaysAreTriedWhereTheFasterOneIsWanted) {
  Random random = case_random(9);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 200, &random);
  const std::size_t request = coded.admit(kLong);
  const std::size_t brief = coded.admit(100);
  BlockAttention attention = coded.tail();
  attention.approximation.if_faster = true;
  BlockBatch batch;
  const auto take_step = [&](bool with_brief) {
    std::vector<EngineStep::Asked> queries{{request, 1}};
    if (with_brief) queries.push_back({brief, 1});
    EngineStep step(coded.engine, queries, &random);
    ASSERT_EQ(step.begin(&batch), Status::kOk);
    ASSERT_EQ(step.attend(&batch, attention), Status::kOk);
  };
  for (int i = 0; i < 8; ++i) take_step(false);
  EXPECT_EQ(coded.codes->counts().exact_calls, 4);
  EXPECT_EQ(coded.codes->counts().approximate + coded.codes->counts().exact, 4 * 2);
  // Of a step with others nothing is learned, but it goes the faster way, too.
  for (int i = 0; i < 8; ++i) take_step(true);
  const BlockCodes::Counts counts = coded.codes->counts();
  EXPECT_EQ((counts.approximate + counts.exact) / 2 + counts.exact_calls, 16);
}

TEST(CodeSpeedTest, TheFasterWayIsTakenAndTheOtherTriedAgain) {
  for (const double codes_ns : {3.0, 30.0}) {
    CodeSpeed speed;
    unsigned by_codes = 0;
    for (int step = 0; step < 8 + 256; ++step) {
      const bool takes_codes = speed.takes_codes();
      by_codes += takes_codes ? 1 : 0;
      speed.note(takes_codes, takes_codes ? codes_ns : 10.0 + step % 7);
    }
    EXPECT_EQ(by_codes, codes_ns < 10 ? 4 + 254 : 4 + 2);
  }
}

TEST(BlockCodesTest, WrittenBlocksLoseTheirCodes) {
  Random random = case_random(5);
  CodedEngine coded({.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 128}, 25, &random);
  std::size_t request = coded.admit(kLong);
  BlockBatch batch;
  const auto check = [&](const BlockAttention& attention) {
    EngineStep step(coded.engine, {{request, 1}}, &random);
    ASSERT_EQ(step.begin(&batch), Status::kOk);
    ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
    expect_as_pages(coded, step, request, 0, 1, attention);
  };
  check(coded.tail());
  const std::uint64_t pages = coded.codes->counts().pages;
  // Tokens that were guessed wrongly are written again, amid a page and in those behind it.
  const std::size_t first = kLong - 200;
  coded.engine.rewrite(request, first);
  coded.codes->forget(coded.engine.slots(request, first));
  check(coded.tail());
  EXPECT_EQ(coded.codes->counts().pages - pages,
            (kLong / NKV_PAGE_TOKENS - first / NKV_PAGE_TOKENS) * 2);
  const std::vector<std::int8_t> gains = some_gains(coded.engine.shape());
  ASSERT_EQ(coded.codes->set_gains(gains), Status::kOk);
  EXPECT_EQ(coded.codes->set_gains(std::span(gains).first(64)), Status::kBadArgument);
  EngineStep gained(coded.engine, {{request, 1}}, &random);
  ASSERT_EQ(gained.begin(&batch), Status::kOk);
  ASSERT_EQ(gained.attend(&batch, coded.tail(), four_threads()), Status::kOk);
  expect_as_pages(coded, gained, request, 0, 1, coded.tail(), gains);
  ASSERT_EQ(coded.codes->set_gains(std::vector<std::int8_t>(gains.size())), Status::kOk);
  // Another request takes the blocks, in another order.
  coded.engine.end(request);
  request = coded.admit(kLong + 77);
  check(coded.tail());
  check(coded.bounded());
}

TEST(BlockCodesTest, WhatCodesCannotBeKeptOfIsRefused) {
  Random random = case_random(7);
  std::unique_ptr<BlockCodes> codes;
  std::string reason;
  for (const BlockShape& shape :
       {BlockShape{.dtype = NKV_DTYPE_FP32, .block_tokens = 64},
        BlockShape{.layout = BlockLayout::kTiles, .block_tokens = 64},
        BlockShape{.layout = BlockLayout::kChannelMajor, .block_tokens = 64},
        BlockShape{.block_tokens = 32}}) {
    BlockEngine engine(shape, 4, &random);
    EXPECT_EQ(BlockCodes::create(engine.cache(), {}, &codes, &reason), Status::kUnsupported);
  }
  BlockEngine engine({.block_tokens = 64}, 4, &random);
  const std::vector<std::int8_t> fewer(64);
  EXPECT_EQ(BlockCodes::create(engine.cache(), fewer, &codes, &reason), Status::kBadArgument);

  CodedEngine coded({.block_tokens = 64}, 4, &random);
  CodedEngine other({.block_tokens = 64}, 4, &random);
  const std::size_t request = coded.admit(3);
  EngineStep step(coded.engine, {{request, 1}}, &random);
  BlockBatch batch;
  ASSERT_EQ(step.begin(&batch), Status::kOk);
  const auto wrong = {coded.bounded(0), coded.bounded(1.5F), coded.tail(0), other.tail()};
  for (const BlockAttention& attention : wrong) {
    EXPECT_EQ(step.attend(&batch, attention), Status::kBadArgument);
    EXPECT_TRUE(step.is_untouched(0));
  }
}

TEST(BlockCodesTest, CodesTakeAtMostAQuarterOfTheCache) {
  Random random = case_random(11);
  for (const std::size_t dim : {64U, 96U, 128U, 256U, 576U}) {
    const CodedEngine coded({.kv_heads = 3, .dim = dim, .block_tokens = 128}, 4, &random);
    const std::size_t cache_bytes = 4 * coded.engine.cache().block_stride_bytes;
    EXPECT_LE(4 * coded.codes->most_bytes(), cache_bytes) << dim << " channels";
    EXPECT_GE(5 * coded.codes->most_bytes(), cache_bytes) << dim << " channels";
  }
}

TEST(BlockCodesTest, RowsAreStoredAtTheirSlots) {
  const BlockShape shape{.kv_heads = 2, .group = 1, .dim = 32, .block_tokens = 64};
  Random random = case_random(8);
  BlockEngine engine(shape, 4, &random);
  const std::size_t request = engine.admit(100);
  const BlockCache cache = engine.cache();
  const std::size_t block_bytes = cache.block_stride_bytes;
  std::vector<std::byte> memory(4 * block_bytes);
  const std::size_t head_bytes = static_cast<std::size_t>(cache.values - cache.keys);
  std::vector<std::uint16_t> keys;
  std::vector<std::uint16_t> values;
  for (std::size_t t = 0; t < 100; ++t) {
    for (std::size_t head = 0; head < 2; ++head) {
      const KvNumbers& rows = engine.requests().at(request).rows[head];
      for (const auto& [from, to] :
           {std::pair(&rows.keys, &keys), std::pair(&rows.values, &values)}) {
        const std::vector<std::uint16_t> bits = bf16(std::span(*from).subspan(t * 32, 32));
        to->insert(to->end(), bits.begin(), bits.end());
      }
    }
  }
  const NewRows rows{reinterpret_cast<const std::byte*>(keys.data()), 128,
                     reinterpret_cast<const std::byte*>(values.data()), 128};
  std::vector<std::int64_t> slots = engine.slots(request);
  slots[7] = -1;
  ASSERT_EQ(store_rows(cache, memory.data(), memory.data() + head_bytes, rows, slots), Status::kOk);
  for (std::size_t t = 0; t < 100; ++t) {
    const auto slot = static_cast<std::size_t>(engine.slots(request)[t]);
    for (std::size_t head = 0; head < 2; ++head) {
      const std::size_t place =
          slot / 64 * block_bytes + head * cache.head_stride_bytes + slot % 64 * 64;
      for (const std::size_t tensor : {std::size_t{0}, head_bytes}) {
        const std::byte* const wanted = cache.keys + place + tensor;
        const bool is_same = std::equal(wanted, wanted + 64, memory.data() + place + tensor);
        EXPECT_EQ(is_same, t != 7) << "token " << t;
      }
    }
  }
  slots[8] = 4 * 64;
  EXPECT_EQ(store_rows(cache, memory.data(), memory.data() + head_bytes, rows, slots),
            Status::kBadArgument);
}

}  // namespace
}  // namespace nearkv::test

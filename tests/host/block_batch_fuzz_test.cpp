// Batches of an engine whose requests appear, grow, fork, are preempted and vanish, with faults
// amid them: each answer is exact, and none depends on what else is in the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "block_engine.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kMostQueries = 8;

/// What requests a case has.
struct Traffic {
  BlockShape shape;
  std::uint32_t longest = 0;  ///< Tokens of a request.
};

/// Long requests are those that threads share; they are of one KV head to be quick.
Traffic some_traffic(Random& random) {
  constexpr std::array kLayouts = {BlockLayout::kRows, BlockLayout::kChannelMajor,
                                   BlockLayout::kTiles};
  constexpr std::array<std::uint8_t, 3> kDtypes = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32};
  BlockShape shape;
  shape.layout = kLayouts[pick(random, 0, 2)];
  const bool has_tiles = shape.layout == BlockLayout::kTiles;
  if (!has_tiles) shape.dtype = kDtypes[pick(random, 0, 2)];
  const bool is_long = pick(random, 0, 3) == 0;
  shape.kv_heads = is_long ? 1 : pick(random, 1, 3);
  shape.group = pick(random, 1, is_long ? 2 : 9);
  shape.dim = 16 * std::size_t{pick(random, 1, 8)};
  shape.block_tokens = (has_tiles ? 32U : 16U) * std::size_t{pick(random, 1, 4)};
  shape.heads_adjoin = pick(random, 0, 3) != 0;
  return {shape, is_long ? 1500U : 300U};
}

/// What happens to requests between two steps.
void let_time_pass(BlockEngine* engine, std::uint32_t longest, Random& random) {
  const std::size_t room = engine->shape().blocks_of(longest);
  std::vector<std::size_t> running;
  for (const auto& [number, request] : engine->requests()) running.push_back(number);
  for (const std::size_t number : running) {
    const std::size_t tokens = engine->requests().at(number).tokens;
    const bool has_room = engine->free_blocks() > room;
    const std::uint32_t event = pick(random, 0, 9);
    if (event == 0 || !has_room) {
      engine->end(number);  // Done, or preempted: its blocks are another's soon.
    } else if (event == 1) {
      engine->fork(number);
    } else if (tokens < longest) {
      engine->grow(number, pick(random, 1, 4));
    }
  }
  while (engine->requests().empty() || pick(random, 0, 2) == 0) {
    if (engine->free_blocks() < room) break;
    engine->admit(pick(random, 1, longest));
  }
}

/// Most of the running requests, in any order, each with some queries; some ask too many.
EngineStep some_step(const BlockEngine& engine, Random& random) {
  std::vector<EngineStep::Asked> asked;
  for (const auto& [number, request] : engine.requests()) {
    const std::uint32_t queries = pick(random, 0, 3) == 0 ? pick(random, 0, kMostQueries + 3) : 1;
    asked.push_back({number, std::min<std::size_t>(queries, request.tokens)});
  }
  std::shuffle(asked.begin(), asked.end(), random);
  return {engine, asked, &random};
}

void expect_the_same_alone(const EngineStep& step, const BlockAttention& attention,
                           BlockBatch* batch) {
  for (std::size_t i = 0; i < step.asked().size(); ++i) {
    EngineStep alone = step.alone(i);
    ASSERT_EQ(alone.begin(batch, kMostQueries), Status::kOk);
    ASSERT_EQ(alone.attend(batch, attention), Status::kOk);
    EXPECT_EQ(alone.answer(0), step.answer(i)) << "request " << i;
  }
}

/// A request whose table is broken fails the call, which writes nothing; without it the rest goes
/// on. One with an element that is not finite leaves all others' answers as they were.
void expect_faults_to_stay(BlockEngine* engine, const EngineStep& sound,
                           const BlockAttention& attention, const ThreadTeam& team,
                           BlockBatch* batch, Random& random) {
  const auto last = static_cast<std::uint32_t>(sound.asked().size() - 1);
  const std::size_t victim = pick(random, 0, last);
  const EngineStep::Asked asked = sound.asked()[victim];
  if (asked.queries == 0 || asked.queries > kMostQueries) return;
  const auto tokens = static_cast<std::uint32_t>(engine->requests().at(asked.request).tokens);

  EngineStep broken = sound;
  broken.forget_answers();
  const std::size_t place = pick(random, 0, tokens - 1) / engine->shape().block_tokens;
  broken.blocks(victim)[place] = pick(random, 0, 1) == 0 ? -1 : 1 << 20;
  ASSERT_EQ(broken.begin(batch, kMostQueries), Status::kOk);
  EXPECT_EQ(broken.attend(batch, attention, team), Status::kBadPage);
  for (std::size_t i = 0; i <= last; ++i) EXPECT_TRUE(broken.is_untouched(i));

  const std::size_t full = tokens / engine->shape().block_tokens * engine->shape().block_tokens;
  if (full == tokens) return;  // Its last block may be shared: others would be spoilt, too.
  EngineStep spoilt = sound;
  spoilt.forget_answers();
  engine->set(asked.request, full, BlockEngine::Tensor::kKeys,
              std::numeric_limits<double>::quiet_NaN());
  ASSERT_EQ(spoilt.begin(batch, kMostQueries), Status::kOk);
  ASSERT_EQ(spoilt.attend(batch, attention, team), Status::kOk);
  for (std::size_t i = 0; i <= last; ++i) {
    if (i == victim) continue;
    EXPECT_EQ(spoilt.answer(i), sound.answer(i)) << "request " << i;
  }
  engine->end(asked.request);
}

TEST(BlockBatchFuzz, AnswersAreExactWhateverElseIsInTheBatch) {
  for (std::uint64_t number = 0; number < 12; ++number) {
    Random random = case_random(number);
    const auto [shape, longest] = some_traffic(random);
    SCOPED_TRACE(case_name(number) + ": " + shape.name());
    BlockEngine engine(shape, 4 * shape.blocks_of(longest) + 1, &random);
    BlockBatch batch;
    for (int turn = 0; turn < 12 && !HasFailure(); ++turn) {
      let_time_pass(&engine, longest, random);
      BlockAttention attention = usual_attention(shape);
      if (pick(random, 0, 2) == 0) attention.window = pick(random, 1, longest);
      if (pick(random, 0, 2) == 0) attention.soft_cap = 20;
      EngineStep step = some_step(engine, random);
      const ThreadTeam team = pick(random, 0, 1) == 0 ? four_threads() : ThreadTeam{};
      ASSERT_EQ(step.begin(&batch, kMostQueries), Status::kOk);
      ASSERT_EQ(step.attend(&batch, attention, team), Status::kOk);
      step.expect_exact(attention, kMostQueries);
      // How work is split among threads depends on all of it.
      if (team.members == 1) expect_the_same_alone(step, attention, &batch);
      expect_faults_to_stay(&engine, step, attention, team, &batch, random);
    }
  }
}

}  // namespace
}  // namespace nearkv::test

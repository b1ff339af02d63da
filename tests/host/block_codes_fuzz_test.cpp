// Batches by codes of an engine whose requests appear, grow, fork, are rewritten, are preempted and
// vanish: each answer is that of pages with the same rows, and none depends on what else is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "coded_engine.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kMost = kLong + 600;  ///< Tokens of a request.
constexpr std::size_t kTurns = 6;

BlockShape some_shape(Random& random) {
  BlockShape shape;
  shape.kv_heads = pick(random, 1, 2);
  shape.group = pick(random, 1, 5);
  shape.dim = 32 * std::size_t{pick(random, 1, 4)};
  shape.block_tokens = 64 * std::size_t{pick(random, 1, 3)};
  shape.heads_adjoin = pick(random, 0, 1) == 0;
  return shape;
}

void fork(CodedEngine* coded, std::size_t request) {
  const std::size_t block = coded->engine.shape().block_tokens;
  const std::size_t child = coded->engine.fork(request);
  const std::size_t tokens = coded->engine.requests().at(child).tokens;
  coded->codes->forget(coded->engine.slots(child, tokens / block * block));
}

/// Tokens that were guessed wrongly are written again, in blocks that no other request has.
void rewrite_newest(CodedEngine* coded, std::size_t request) {
  const std::size_t block = coded->engine.shape().block_tokens;
  const std::size_t tokens = coded->engine.requests().at(request).tokens;
  const std::size_t first = tokens / block * block;
  if (first == tokens) return;
  coded->engine.rewrite(request, first);
  coded->codes->forget(coded->engine.slots(request, first));
}

/// What happens to requests between two steps.
void let_time_pass(CodedEngine* coded, Random& random) {
  const std::size_t room = coded->engine.shape().blocks_of(kMost);
  std::vector<std::size_t> running;
  for (const auto& [number, request] : coded->engine.requests()) running.push_back(number);
  for (const std::size_t number : running) {
    const std::size_t tokens = coded->engine.requests().at(number).tokens;
    const std::uint32_t event = pick(random, 0, 9);
    if (event == 0 || coded->engine.free_blocks() <= room) {
      coded->engine.end(number);
    } else if (event == 1) {
      fork(coded, number);
    } else if (event == 2) {
      rewrite_newest(coded, number);
    } else if (tokens + 70 < kMost) {
      coded->grow(number, pick(random, 1, 70));
    }
  }
  while (coded->engine.requests().empty() || pick(random, 0, 1) == 0) {
    if (coded->engine.free_blocks() < room) break;
    const bool is_long = pick(random, 0, 2) != 0;
    coded->admit(is_long ? pick(random, kLeastApproximateTokens, kLong) : pick(random, 1, 300));
  }
}

BlockAttention some_attention(const CodedEngine& coded, Random& random) {
  BlockAttention attention = pick(random, 0, 1) == 0
                                 ? coded.tail(pick(random, 1, 200))
                                 : coded.bounded(static_cast<float>(pick(random, 1, 60)) / 100);
  if (pick(random, 0, 2) == 0) attention.window = pick(random, 1500, kMost);
  return attention;
}

TEST(BlockCodesFuzz, AnswersAreThoseOfPagesWhateverElseIsInTheBatch) {
  for (std::uint64_t number = 0; number < 8; ++number) {
    Random random = case_random(number);
    const BlockShape shape = some_shape(random);
    SCOPED_TRACE(case_name(number) + ": " + shape.name());
    CodedEngine coded(shape, 4 * shape.blocks_of(kMost) + 1, &random);
    BlockBatch batch;
    for (std::size_t turn = 0; turn < kTurns && !HasFailure(); ++turn) {
      let_time_pass(&coded, random);
      std::vector<EngineStep::Asked> asked;
      for (const auto& [request, of] : coded.engine.requests()) asked.push_back({request, 1});
      std::shuffle(asked.begin(), asked.end(), random);
      EngineStep step(coded.engine, asked, &random);
      const BlockAttention attention = some_attention(coded, random);
      ASSERT_EQ(step.begin(&batch), Status::kOk);
      ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        SCOPED_TRACE("turn " + std::to_string(turn) + ", request " + std::to_string(i));
        const std::size_t tokens = coded.engine.requests().at(asked[i].request).tokens;
        const std::size_t seen =
            attention.window == 0 ? tokens : std::min<std::size_t>(tokens, attention.window);
        if (seen >= kLeastApproximateTokens) {
          expect_as_pages(coded, step, asked[i].request, i, 1, attention);
        } else {
          step.expect_exact_request(i, attention);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::test

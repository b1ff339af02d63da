// An exact step takes no memory, and one by codes little: buffers are kept from step to step.
#include <gtest/gtest.h>

#include <vector>

#include "coded_engine.hpp"
#include "support/counted_new.hpp"

namespace nearkv::test {
namespace {

/// Of a step like those before it, less the one by which EngineStep itself writes its queries.
std::size_t allocations_of_a_step(EngineStep* step, const BlockAttention& attention) {
  BlockBatch batch;
  std::size_t before = 0;
  for (int turn = 0; turn < 4; ++turn) {
    before = allocations();
    EXPECT_EQ(step->begin(&batch), Status::kOk);
    EXPECT_EQ(step->attend(&batch, attention), Status::kOk);
  }
  return allocations() - before - 1;
}

class BlockAllocationsTest : public testing::Test {
 protected:
  Random random_ = case_random(0);
  CodedEngine coded_{{.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 300, &random_};
  const std::size_t brief_ = coded_.admit(300);
  const std::size_t other_ = coded_.admit(kLong);
  const std::size_t longest_ = coded_.admit(3 * kLong);
  EngineStep step_{coded_.engine, {{brief_, 1}, {longest_, 2}, {other_, 1}}, &random_};
};

TEST_F(BlockAllocationsTest, AreCounted) {
  const std::size_t before = allocations();
  const std::vector<int> some(5);
  EXPECT_EQ(some.size(), 5U);
  EXPECT_EQ(allocations() - before, 1U);
}

TEST_F(BlockAllocationsTest, AnExactStepMakesNone) {
  const BlockAttention exact = usual_attention(coded_.engine.shape());
  EXPECT_EQ(allocations_of_a_step(&step_, exact), 0U);
}

// Results and lists of chosen rows are small beside what is read for them.
TEST_F(BlockAllocationsTest, AStepByCodesMakesFewForEachQueryAndKvHead) {
  const std::size_t tasks = 3 * coded_.engine.shape().kv_heads;
  EXPECT_LE(allocations_of_a_step(&step_, coded_.tail()), 12 * tasks);
  EXPECT_LE(allocations_of_a_step(&step_, coded_.bounded()), 12 * tasks);
}

}  // namespace
}  // namespace nearkv::test

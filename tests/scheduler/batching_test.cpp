// Orca and Sarathi-Serve: worked examples of iteration-level batching.
#include "checked_engine.hpp"

namespace nearkv::scheduler::test {
namespace {

TEST(Orca, RequestsJoinAndLeaveAtEachStep) {
  // The example of the paper's figure: a short request leaves while a long one goes on, and the
  // next takes its place at once.
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 2, .block_tokens = 4, .pool_blocks = 100}, make_orca());
  engine.add({.tag = 1, .prompt_tokens = 8, .most_output_tokens = 5});
  engine.add({.tag = 2, .prompt_tokens = 8, .most_output_tokens = 2});
  engine.add({.tag = 3, .prompt_tokens = 8, .most_output_tokens = 2});
  engine.step();
  EXPECT_EQ(engine.iteration.prefills.size(), 2U);
  engine.step();
  EXPECT_EQ(engine.iteration.decodes.size(), 2U);
  ASSERT_TRUE(engine.ended.contains(2));
  engine.step();
  EXPECT_EQ(engine.iteration.decodes.size(), 1U);
  EXPECT_EQ(engine.iteration.prefills.size(), 1U) << "the third joins the first";
  engine.run();
  EXPECT_EQ(engine.end_order, (std::vector<std::uint64_t>{2, 3, 1}));
  EXPECT_EQ(engine.steps_with_work, 5U) << "as many as the longest output";
}

TEST(Orca, ReservesTheLongestOutputAndNeverPreempts) {
  // Two need 5 blocks each of 8: the second waits, though its prompt would fit.
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 4, .block_tokens = 4, .pool_blocks = 8}, make_orca());
  engine.add({.tag = 1, .prompt_tokens = 8, .most_output_tokens = 13});
  engine.add({.tag = 2, .prompt_tokens = 8, .most_output_tokens = 13});
  engine.step();
  EXPECT_EQ(engine.iteration.prefills.size(), 1U);
  engine.run();
  EXPECT_EQ(engine.ended[1].preemptions + engine.ended[2].preemptions, 0U);
}

TEST(Sarathi, AChunkFillsWhatDecodesLeave) {
  CheckedEngine engine(
      {.token_budget = 16, .most_running = 4, .block_tokens = 4, .pool_blocks = 100},
      make_sarathi());
  engine.add({.tag = 1, .prompt_tokens = 10, .most_output_tokens = 10});
  engine.step();
  engine.add({.tag = 2, .prompt_tokens = 40, .most_output_tokens = 2});
  std::vector<std::uint32_t> chunks;
  while (!engine.ended.contains(2)) {
    engine.step();
    EXPECT_EQ(engine.iteration.decodes.empty(), false) << "request 1 never stalls";
    for (const Work& work : engine.iteration.prefills) chunks.push_back(work.tokens);
  }
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{15, 15, 10}));
}

TEST(Sarathi, TheRestOfABudgetGoesToTheNextPrompt) {
  CheckedEngine engine(
      {.token_budget = 16, .most_running = 4, .block_tokens = 4, .pool_blocks = 100},
      make_sarathi());
  engine.add({.tag = 1, .prompt_tokens = 10, .most_output_tokens = 1});
  engine.add({.tag = 2, .prompt_tokens = 10, .most_output_tokens = 1});
  engine.step();
  ASSERT_EQ(engine.iteration.prefills.size(), 2U);
  EXPECT_EQ(engine.iteration.prefills[1].tokens, 6U);
  engine.step();
  ASSERT_EQ(engine.iteration.prefills.size(), 1U);
  EXPECT_EQ(engine.iteration.prefills[0].tokens, 4U);
  EXPECT_EQ(engine.iteration.prefills[0].context_tokens, 6U);
}

TEST(Sarathi, WhoArrivedLastGivesWayAndComesBackFirst) {
  // Both prompts fit the 6 blocks, but not both outputs.
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 4, .block_tokens = 4, .pool_blocks = 6},
      make_sarathi());
  engine.add({.tag = 1, .prompt_tokens = 12, .most_output_tokens = 8});
  engine.add({.tag = 2, .prompt_tokens = 12, .most_output_tokens = 8});
  engine.add({.tag = 3, .prompt_tokens = 12, .most_output_tokens = 8});
  engine.run();
  EXPECT_EQ(engine.ended[1].preemptions, 0U);
  EXPECT_GE(engine.ended[2].preemptions, 1U);
  EXPECT_EQ(engine.end_order, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(engine.ended[2].generated_tokens, 8U) << "what it had generated is kept";
}

TEST(Batching, ASecondPromptOfAPrefixComputesTheRest) {
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 4, .block_tokens = 4, .pool_blocks = 100},
      make_sarathi());
  engine.add(
      {.tag = 1, .prompt_tokens = 18, .most_output_tokens = 3, .block_hashes = chain(1, 3, 1, 4)});
  engine.step();
  engine.add(
      {.tag = 2, .prompt_tokens = 18, .most_output_tokens = 3, .block_hashes = chain(1, 3, 2, 4)});
  engine.step();
  ASSERT_EQ(engine.iteration.prefills.size(), 1U);
  EXPECT_EQ(engine.iteration.prefills[0].context_tokens, 12U);
  EXPECT_EQ(engine.iteration.prefills[0].tokens, 6U);
  engine.run();
  EXPECT_EQ(engine.ended[2].cached_tokens, 12U);
}

TEST(Batching, APromptThatIsAllThereComputesItsLastBlock) {
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 4, .block_tokens = 4, .pool_blocks = 100},
      make_sarathi());
  for (std::uint64_t tag = 1; tag <= 2; ++tag) {
    engine.add({.tag = tag, .prompt_tokens = 16, .block_hashes = chain(1, 4, 0, 4)});
    engine.run();
  }
  EXPECT_EQ(engine.ended[2].cached_tokens, 12U);
}

TEST(Batching, OutputsWhoseHashesAreKnownAreFoundInTheNextTurn) {
  CheckedEngine engine(
      {.token_budget = 100, .most_running = 4, .block_tokens = 4, .pool_blocks = 100},
      make_sarathi());
  // 8 of prompt and 9 of output, of which the last is not computed: 4 full blocks.
  engine.add(
      {.tag = 1, .prompt_tokens = 8, .most_output_tokens = 9, .block_hashes = chain(1, 4, 0, 4)});
  engine.run();
  engine.add({.tag = 2, .prompt_tokens = 21, .block_hashes = chain(1, 5, 0, 5)});
  engine.run();
  EXPECT_EQ(engine.ended[2].cached_tokens, 16U);
}

TEST(Swap, ASecondSwitchCopiesWhatIsNew) {
  // Host memory for all: the youngest is swapped out and in as the pool fills.
  CheckedEngine engine({.token_budget = 100,
                        .most_running = 4,
                        .block_tokens = 4,
                        .pool_blocks = 8,
                        .swap_blocks = 100},
                       make_sarathi());
  engine.add({.tag = 1, .prompt_tokens = 8, .most_output_tokens = 12});
  engine.add({.tag = 2, .prompt_tokens = 8, .most_output_tokens = 20});
  engine.add({.tag = 3, .prompt_tokens = 8, .most_output_tokens = 20});
  std::map<RequestId, std::vector<std::uint32_t>> copied;
  std::uint64_t prefilled_tokens = 0;
  while (engine.ended.size() < 3) {
    engine.step();
    for (const SwapOut& out : engine.iteration.swap_outs) {
      copied[out.request].push_back(out.blocks_to_copy);
    }
    for (const Work& work : engine.iteration.prefills) prefilled_tokens += work.tokens;
  }
  EXPECT_EQ(prefilled_tokens, 24U) << "nothing is computed twice";
  bool switched_again = false;
  for (const auto& [id, blocks] : copied) {
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      switched_again = true;
      EXPECT_LE(blocks[i], 3U) << "its first blocks have copies";
    }
  }
  EXPECT_TRUE(switched_again);
}

}  // namespace
}  // namespace nearkv::scheduler::test

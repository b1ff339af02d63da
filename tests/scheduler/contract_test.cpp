// What the scheduler refuses, and what it answers out of turn.
#include "checked_engine.hpp"

namespace nearkv::scheduler::test {
namespace {

Scheduler::Options small() {
  return {.token_budget = 32, .most_running = 4, .block_tokens = 4, .pool_blocks = 16};
}

TEST(Contract, OpenRefusesABudgetThatLetsDecodesWait) {
  Scheduler::Options options = small();
  options.token_budget = 3;
  std::unique_ptr<Scheduler> scheduler;
  std::string reason;
  EXPECT_EQ(Scheduler::open(options, make_sarathi(), make_lru(1), nullptr, &scheduler, &reason),
            Status::kBadArgument);
  EXPECT_NE(reason.find("raise one or lower the other"), std::string::npos) << reason;
  EXPECT_EQ(scheduler, nullptr);
}

TEST(Contract, OpenRefusesNoPolicyAndNoPool) {
  std::unique_ptr<Scheduler> scheduler;
  std::string reason;
  EXPECT_EQ(Scheduler::open(small(), nullptr, make_lru(1), nullptr, &scheduler, &reason),
            Status::kBadArgument);
  Scheduler::Options options = small();
  options.pool_blocks = 0;
  EXPECT_EQ(Scheduler::open(options, make_orca(), make_lru(1), nullptr, &scheduler, &reason),
            Status::kBadArgument);
}

TEST(Contract, APromptThatFitsNoPoolIsRefusedWithTheMend) {
  CheckedEngine engine(small(), make_sarathi());
  RequestId id = kNoRequest;
  std::string reason;
  // 16 blocks of 4 tokens: the last token generated needs no place.
  EXPECT_EQ(engine.scheduler->add(0, {.prompt_tokens = 60, .most_output_tokens = 6}, &id, &reason),
            Status::kPoolFull);
  EXPECT_NE(reason.find("17 blocks, and the pool has 16: enlarge the pool"), std::string::npos)
      << reason;
  EXPECT_EQ(engine.scheduler->waiting(), 0U);
  engine.add({.prompt_tokens = 60, .most_output_tokens = 5});
  engine.run();
}

TEST(Contract, AHundredThousandTokensInASmallPoolAreRefused) {
  CheckedEngine engine(small(), make_sarathi());
  RequestId id = kNoRequest;
  std::string reason;
  EXPECT_EQ(engine.scheduler->add(0, {.prompt_tokens = 100'000}, &id, &reason), Status::kPoolFull);
  constexpr std::uint32_t kMost = 0xFFFFFFFF;
  EXPECT_EQ(
      engine.scheduler->add(0, {.prompt_tokens = kMost, .most_output_tokens = kMost}, &id, &reason),
      Status::kPoolFull);
  EXPECT_EQ(engine.scheduler->add(0, {.prompt_tokens = 0}, &id, &reason), Status::kBadArgument);
}

TEST(Contract, OrcaRefusesAPromptThatExceedsAStep) {
  CheckedEngine engine(small(), make_orca());
  RequestId id = kNoRequest;
  std::string reason;
  EXPECT_EQ(engine.scheduler->add(0, {.prompt_tokens = 40}, &id, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("sarathi"), std::string::npos) << reason;
}

TEST(Contract, CallsOutOfTurnChangeNothing) {
  CheckedEngine engine(small(), make_sarathi());
  std::vector<Ended> ended;
  EXPECT_EQ(engine.scheduler->complete(0, &ended), Status::kBadArgument);
  const RequestId id = engine.add({.prompt_tokens = 8, .most_output_tokens = 2});
  Iteration iteration;
  EXPECT_EQ(engine.scheduler->plan(0, &iteration), Status::kOk);
  EXPECT_EQ(engine.scheduler->plan(0, &iteration), Status::kBusy);
  EXPECT_EQ(engine.scheduler->prefetch(0, {}, 0), Status::kBusy);
  EXPECT_EQ(engine.scheduler->loaded(0, id, 1), Status::kNotFound);
  EXPECT_EQ(engine.scheduler->end(0, id + 1), Status::kNotFound);
  EXPECT_EQ(engine.scheduler->complete(1, &ended), Status::kOk);
  engine.run();
}

TEST(Contract, EndStopsARequestWhereverItIs) {
  PlainTier tier(0.001);
  for (const BlockHash hash : chain(1, 3, 0, 3)) tier.held.insert(hash);
  CheckedEngine engine(small(), make_sarathi(), &tier);
  const RequestId runs = engine.add({.tag = 1, .prompt_tokens = 8, .most_output_tokens = 20});
  const RequestId loads = engine.add(
      {.tag = 2, .prompt_tokens = 14, .most_output_tokens = 20, .block_hashes = chain(1, 3, 0, 3)});
  const RequestId waits = engine.add({.tag = 3, .prompt_tokens = 48, .most_output_tokens = 10});
  engine.block_load_s = 0.01;
  engine.step();
  ASSERT_EQ(engine.scheduler->requests()[loads].phase, Phase::kLoading);
  ASSERT_EQ(engine.scheduler->requests()[waits].phase, Phase::kWaiting);
  EXPECT_EQ(engine.scheduler->end(engine.now_s, waits), Status::kOk);
  EXPECT_EQ(engine.scheduler->end(engine.now_s, runs), Status::kOk);
  EXPECT_EQ(engine.scheduler->end(engine.now_s, runs), Status::kNotFound);
  // What is being written to stays until the load has come.
  EXPECT_EQ(engine.scheduler->end(engine.now_s, loads), Status::kOk);
  EXPECT_EQ(engine.scheduler->requests().size(), 1U);
  engine.run(10);
}

TEST(Contract, EndDuringAStepTakesEffectWithIt) {
  CheckedEngine engine(small(), make_sarathi());
  const RequestId id = engine.add({.tag = 7, .prompt_tokens = 8, .most_output_tokens = 20});
  Iteration iteration;
  ASSERT_EQ(engine.scheduler->plan(0, &iteration), Status::kOk);
  EXPECT_EQ(engine.scheduler->end(0, id), Status::kOk);
  std::vector<Ended> ended;
  EXPECT_EQ(engine.scheduler->complete(1, &ended), Status::kOk);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].generated_tokens, 1U);
  EXPECT_EQ(engine.scheduler->requests().size(), 0U);
}

TEST(Contract, ALoadThatFailsIsComputed) {
  PlainTier tier(0.001);
  const auto hashes = chain(1, 3, 0, 3);
  tier.held.insert(hashes.begin(), hashes.end());
  CheckedEngine engine(small(), make_sarathi(), &tier);
  const RequestId id =
      engine.add({.prompt_tokens = 14, .most_output_tokens = 1, .block_hashes = hashes});
  Iteration iteration;
  std::vector<Ended> ended;
  ASSERT_EQ(engine.scheduler->plan(0, &iteration), Status::kOk);
  ASSERT_EQ(iteration.loads.size(), 1U);
  EXPECT_EQ(iteration.loads[0].blocks, 3U);
  EXPECT_FALSE(iteration.has_work());
  ASSERT_EQ(engine.scheduler->complete(0, &ended), Status::kOk);
  EXPECT_EQ(engine.scheduler->loaded(0, id, 4), Status::kBadArgument);
  EXPECT_EQ(engine.scheduler->loaded(0, id, 1), Status::kOk);
  ASSERT_EQ(engine.scheduler->plan(0, &iteration), Status::kOk);
  ASSERT_EQ(iteration.prefills.size(), 1U);
  EXPECT_EQ(iteration.prefills[0].context_tokens, 4U);
  EXPECT_EQ(iteration.prefills[0].tokens, 10U);
  ASSERT_EQ(engine.scheduler->complete(0, &ended), Status::kOk);
  EXPECT_EQ(ended.size(), 1U);
}

TEST(Contract, WhereLoadingIsSlowerItComputes) {
  PlainTier tier(0.5);
  const auto hashes = chain(1, 3, 0, 3);
  tier.held.insert(hashes.begin(), hashes.end());
  Scheduler::Options options = small();
  options.prefill_s_per_token = 0.01;
  CheckedEngine engine(options, make_sarathi(), &tier);
  engine.add({.prompt_tokens = 14, .most_output_tokens = 1, .block_hashes = hashes});
  engine.step();
  EXPECT_TRUE(engine.iteration.loads.empty());
  ASSERT_EQ(engine.iteration.prefills.size(), 1U);
  EXPECT_EQ(engine.iteration.prefills[0].tokens, 14U);
}

TEST(Contract, UnknownPoliciesAreRefusedWithTheNames) {
  std::unique_ptr<SchedulingPolicy> policy;
  std::string reason;
  EXPECT_EQ(make_policy("fifo", {}, &policy, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("'fifo'; there are orca sarathi"), std::string::npos) << reason;
  EXPECT_EQ(make_policy("agent_steps", {}, &policy, &reason), Status::kBadArgument);
  EXPECT_EQ(make_policy("k_lpm", {.prefix_match = {.k = 0}}, &policy, &reason),
            Status::kBadArgument);
  for (const std::string_view name : policy_names()) {
    AgentStepGraph graph;
    EXPECT_EQ(policy_named(name, {.graph = &graph})->name(), name);
  }
}

}  // namespace
}  // namespace nearkv::scheduler::test

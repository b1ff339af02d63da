// KVFlow's step graph: steps to next use, what is evicted, what is fetched before it is asked for.
#include "checked_engine.hpp"

namespace nearkv::scheduler::test {
namespace {

using Join = AgentStepGraph::Join;

TEST(AgentStepGraph, StepsOfAChainAndALoop) {
  AgentStepGraph graph;
  for (int i = 0; i < 4; ++i) graph.add_agent(Join::kAny);
  for (std::uint32_t i = 0; i < 4; ++i) graph.add_edge(i, (i + 1) % 4);
  EXPECT_EQ(graph.steps_to_next_use(0), AgentStepGraph::kNever);
  graph.enter(1);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(graph.steps_to_next_use(i), (i + 3) % 4);
  graph.enter(3);
  graph.leave(1);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(graph.steps_to_next_use(i), (i + 1) % 4);
}

TEST(AgentStepGraph, AJoinOfAllWaitsForTheFarthestAnyForTheNearest) {
  // 0 -> 1 -> 2 -> 3, and 0 -> 3: the third waits for all, or for any.
  for (const Join join : {Join::kAll, Join::kAny}) {
    AgentStepGraph graph;
    for (int i = 0; i < 3; ++i) graph.add_agent(Join::kAny);
    const std::uint32_t last = graph.add_agent(join);
    graph.add_edge(0, 1);
    graph.add_edge(1, 2);
    graph.add_edge(2, last);
    graph.add_edge(0, last);
    graph.enter(0);
    EXPECT_EQ(graph.steps_to_next_use(last), join == Join::kAll ? 3U : 1U);
  }
}

TEST(AgentStepGraph, UnknownAgentsAreIgnored) {
  AgentStepGraph graph;
  graph.enter(kNoAgent);
  graph.leave(kNoAgent);
  const std::uint32_t agent = graph.add_agent(Join::kAny);
  graph.leave(agent);
  EXPECT_EQ(graph.steps_to_next_use(agent), AgentStepGraph::kNever);
}

/// Agents in a ring, each with a fixed prompt of 6 blocks.
struct Ring {
  explicit Ring(std::uint32_t agents) {
    for (std::uint32_t agent = 0; agent < agents; ++agent) graph.add_agent(Join::kAny);
    for (std::uint32_t agent = 0; agent < agents; ++agent) {
      graph.add_edge(agent, (agent + 1) % agents);
      graph.set_fixed_prompt(agent, prompt(agent));
    }
  }

  static std::vector<BlockHash> prompt(std::uint32_t agent) { return chain(agent + 1, 6, 0, 6); }

  /// A step of an agent: its fixed prompt and 2 blocks of its own.
  static Request step(std::uint64_t tag, std::uint32_t agent) {
    return {.tag = tag,
            .prompt_tokens = 34,
            .most_output_tokens = 2,
            .block_hashes = chain(agent + 1, 6, tag, 8),
            .agent = agent};
  }

  AgentStepGraph graph;
};

/// Tokens found in a pool of 31 blocks by rounds of 5 agents, of which it holds about 4.
std::uint64_t cached_tokens(bool by_steps) {
  Ring ring(5);
  CheckedEngine engine(
      {.token_budget = 64, .most_running = 1, .block_tokens = 4, .pool_blocks = 31},
      make_agent_steps(&ring.graph), nullptr,
      by_steps ? make_step_graph_eviction(&ring.graph) : make_lru(1));
  std::uint64_t tag = 0;
  for (; tag < 50; ++tag) {
    engine.add(Ring::step(tag, static_cast<std::uint32_t>(tag % 5)));
    while (!engine.ended.contains(tag)) engine.step();
  }
  std::uint64_t tokens = 0;
  for (const auto& [number, one] : engine.ended) tokens += one.cached_tokens;
  return tokens;
}

TEST(AgentSteps, TheAgentThatIsFarthestAwayIsEvicted) {
  // LRU evicts in a ring just what comes next.
  EXPECT_EQ(cached_tokens(/*by_steps=*/false), 0U);
  EXPECT_GE(cached_tokens(/*by_steps=*/true), 50U * 24 / 2);
}

TEST(AgentSteps, WhatIsNoAgentsGoesFirst) {
  Ring ring(2);
  ring.graph.enter(0);
  BlockPool pool(9, make_step_graph_eviction(&ring.graph));
  const auto publish = [&pool](const std::vector<BlockHash>& hashes) {
    std::vector<ObjectId> blocks;
    ASSERT_TRUE(pool.take(static_cast<std::uint32_t>(hashes.size())));
    pool.publish(hashes, &blocks);
    pool.unpin(&blocks);
  };
  publish(Ring::prompt(1));
  publish(chain(9, 3, 0, 3));
  ASSERT_TRUE(pool.take(3));
  EXPECT_EQ(pool.match(Ring::prompt(1)), 6U);
  EXPECT_EQ(pool.match(chain(9, 3, 0, 3)), 0U);
  ASSERT_TRUE(pool.take(2));
  EXPECT_EQ(pool.match(Ring::prompt(1)), 4U) << "tails first";
}

TEST(AgentSteps, AFetchedPromptIsThereWhenItsStepComes) {
  Ring ring(3);
  PlainTier tier(0.001);
  for (const BlockHash hash : Ring::prompt(1)) tier.held.insert(hash);
  CheckedEngine engine(
      {.token_budget = 64, .most_running = 2, .block_tokens = 4, .pool_blocks = 40},
      make_agent_steps(&ring.graph), &tier, make_step_graph_eviction(&ring.graph));
  engine.add(Ring::step(1, 0));
  engine.step();
  ASSERT_EQ(ring.graph.steps_to_next_use(1), 1U);
  EXPECT_EQ(engine.scheduler->prefetch(engine.now_s, ring.graph.fixed_prompt(1), 1), Status::kOk);
  EXPECT_EQ(engine.scheduler->prefetch(engine.now_s, ring.graph.fixed_prompt(2), 2),
            Status::kNotFound);
  engine.run();
  const RequestId id = engine.add(Ring::step(2, 1));
  engine.step();
  EXPECT_TRUE(engine.iteration.loads.empty());
  EXPECT_EQ(engine.scheduler->requests()[id].cached_tokens, 24U);
  engine.run();
}

TEST(AgentSteps, APrefetchTakesNobodysPlace) {
  Ring ring(3);
  PlainTier tier(0.001);
  for (const BlockHash hash : Ring::prompt(1)) tier.held.insert(hash);
  CheckedEngine engine(
      {.token_budget = 64, .most_running = 2, .block_tokens = 4, .pool_blocks = 14},
      make_agent_steps(&ring.graph), &tier);
  engine.add(Ring::step(1, 0));
  engine.step();
  EXPECT_EQ(engine.scheduler->prefetch(engine.now_s, ring.graph.fixed_prompt(1), 1),
            Status::kPoolFull);
  engine.run();
}

}  // namespace
}  // namespace nearkv::scheduler::test

// Random loads on every policy: budgets, blocks, progress, and an end for everyone.
#include "checked_engine.hpp"
#include "support/seed.hpp"

namespace nearkv::scheduler::test {
namespace {

using nearkv::test::case_name;
using nearkv::test::case_random;
using nearkv::test::pick;
using nearkv::test::Random;

constexpr std::uint64_t kCases = 40;

Request random_request(Random& random, std::uint64_t tag) {
  const std::uint32_t prompt = pick(random, 1, pick(random, 0, 3) == 0 ? 200 : 40);
  const std::uint32_t output = pick(random, 1, pick(random, 0, 5) == 0 ? 80 : 12);
  const std::uint32_t named = pick(random, 0, (prompt + output) / 4);
  const std::uint32_t prefix = pick(random, 1, 6);
  return {.tag = tag,
          .prompt_tokens = prompt,
          .most_output_tokens = output,
          .block_hashes = chain(prefix, pick(random, 0, named), pick(random, 0, 3), named),
          .tenant = pick(random, 0, 3),
          .service_class = pick(random, 0, 2),
          .group = pick(random, 0, 2) == 0 ? kNoGroup : prefix,
          .agent = pick(random, 0, 5)};
}

class RandomLoad : public testing::TestWithParam<std::string_view> {};

TEST_P(RandomLoad, KeepsAllPromisesAndEnds) {
  for (std::uint64_t number = 0; number < kCases; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    AgentStepGraph graph;
    for (std::uint32_t agent = 0; agent < 5; ++agent) {
      graph.add_agent(agent % 2 == 0 ? AgentStepGraph::Join::kAny : AgentStepGraph::Join::kAll);
      graph.set_fixed_prompt(agent, chain(agent + 1, 4, 0, 4));
      if (agent > 0) graph.add_edge(agent - 1, agent);
    }
    PolicyOptions policy_options{
        .fair_share = {.quantum_tokens = static_cast<double>(pick(random, 0, 100)),
                       .least_run_s = pick(random, 0, 1) * 0.05,
                       .shares = {1, 2, 3}},
        .cache_aware = {.window = pick(random, 1, 8),
                        .prefill_s_per_token = pick(random, 0, 1) * 0.001,
                        .longest_wait_s = 0.5},
        .prefix_match = {.k = pick(random, 1, 5), .window = pick(random, 1, 8)},
        .slo = {.classes = {{.ttft_s = 0.1}, {.ttft_s = 1}}, .prefill_s_per_token = 0.001},
        .graph = &graph};
    PlainTier tier(0.002);
    tier.keeps = pick(random, 0, 1) == 0;
    // The longest request, of 70 blocks, just fits the smallest pool.
    const std::uint32_t budget = pick(random, 0, 1) == 0 ? 300 : 600;
    CheckedEngine engine({.token_budget = GetParam() == "orca" ? 300 : budget / 20,
                          .most_running = pick(random, 1, 15),
                          .block_tokens = 4,
                          .pool_blocks = pick(random, 70, 200),
                          .swap_blocks = pick(random, 0, 2) * 40,
                          .prefill_s_per_token = pick(random, 0, 1) * 0.002},
                         policy_named(GetParam(), policy_options), &tier,
                         pick(random, 0, 1) == 0 ? make_step_graph_eviction(&graph) : make_lru(1));
    engine.block_load_s = pick(random, 1, 3) * 0.004;
    constexpr std::uint64_t kRequests = 60;
    std::map<std::uint64_t, std::uint32_t> outputs;
    for (std::uint64_t tag = 0; tag < kRequests; ++tag) {
      const Request request = random_request(random, tag);
      outputs[tag] = request.most_output_tokens;
      engine.add(request);
      for (std::uint32_t steps = pick(random, 0, 8); steps > 0; --steps) engine.step();
      if (pick(random, 0, 4) == 0) {
        const std::uint32_t agent = pick(random, 0, 4);
        static_cast<void>(
            engine.scheduler->prefetch(engine.now_s, graph.fixed_prompt(agent), agent));
      }
    }
    engine.run(20'000);
    EXPECT_EQ(engine.ended.size(), kRequests);
    for (const auto& [tag, one] : engine.ended) {
      EXPECT_EQ(one.generated_tokens, outputs[tag]);
      EXPECT_GE(one.first_token_s, one.arrived_s);
      EXPECT_LT(one.cached_tokens, one.prompt_tokens + one.generated_tokens);
    }
    if (HasFailure()) return;
  }
}

TEST_P(RandomLoad, TheSameLoadIsTheSameSchedule) {
  AgentStepGraph graph;
  const auto order = [&] {
    Random random = case_random(1);
    CheckedEngine engine(
        {.token_budget = 300, .most_running = 6, .block_tokens = 4, .pool_blocks = 90},
        policy_named(GetParam(), {.graph = &graph}));
    for (std::uint64_t tag = 0; tag < 40; ++tag) engine.add(random_request(random, tag));
    engine.run(20'000);
    return engine.end_order;
  };
  EXPECT_EQ(order(), order());
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomLoad, testing::ValuesIn(policy_names()),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace nearkv::scheduler::test

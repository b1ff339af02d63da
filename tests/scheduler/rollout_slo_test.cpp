// Rollouts of many samples, and classes of service.
#include <numeric>

#include "checked_engine.hpp"

namespace nearkv::scheduler::test {
namespace {

Request sample(std::uint64_t tag, std::uint32_t group, std::uint32_t output) {
  return {.tag = tag,
          .prompt_tokens = 33,
          .most_output_tokens = output,
          .block_hashes = chain(group + 1, 8, 0, 8),
          .group = group};
}

TEST(Rollout, APromptIsComputedOnceForAllItsSamples) {
  CheckedEngine engine(
      {.token_budget = 256, .most_running = 64, .block_tokens = 4, .pool_blocks = 1000},
      make_rollout());
  for (std::uint64_t tag = 0; tag < 32; ++tag) {
    engine.add(sample(tag, static_cast<std::uint32_t>(tag / 8), 10));
  }
  std::uint64_t tokens = 0;
  while (engine.ended.size() < 32) {
    engine.step();
    for (const Work& work : engine.iteration.prefills) tokens += work.tokens;
  }
  // The first of each group all of it, its siblings the token behind the last full block.
  EXPECT_EQ(tokens, 4U * 33 + 28U * 1);
}

/// Steps until all samples have ended, four at a time.
std::size_t makespan(std::unique_ptr<SchedulingPolicy> policy,
                     const std::vector<std::uint32_t>& lengths, std::uint32_t samples) {
  CheckedEngine engine(
      {.token_budget = 256, .most_running = 4, .block_tokens = 4, .pool_blocks = 4000},
      std::move(policy));
  for (std::uint32_t group = 0; group < lengths.size(); ++group) {
    for (std::uint32_t i = 0; i < samples; ++i) {
      engine.add(sample(std::uint64_t{group} * samples + i, group, lengths[group]));
    }
  }
  engine.run();
  return engine.steps_with_work;
}

TEST(Rollout, TheLongTailBeginsEarly) {
  // Groups that get longer: in the order of arrival the longest would be left for the end.
  std::vector<std::uint32_t> lengths(12);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (std::uint32_t& length : lengths) length *= length * 2;
  const std::size_t work = 3 * std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  const std::size_t least = std::max<std::size_t>(work / 4, lengths.back());
  const std::size_t rollout = makespan(make_rollout(), lengths, 3);
  EXPECT_LE(static_cast<double>(rollout), 4.0 / 3 * static_cast<double>(least));
  EXPECT_LT(rollout, makespan(make_sarathi(), lengths, 3));
}

TEST(Rollout, WithoutGroupsItIsArrivalOrder) {
  CheckedEngine engine(
      {.token_budget = 256, .most_running = 1, .block_tokens = 4, .pool_blocks = 100},
      make_rollout());
  for (std::uint64_t tag = 0; tag < 5; ++tag) {
    engine.add({.tag = tag, .prompt_tokens = 8, .most_output_tokens = 3});
  }
  engine.run();
  EXPECT_EQ(engine.end_order, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST(Slo, TheEarliestDeadlineGoesFirst) {
  CheckedEngine engine(
      {.token_budget = 64, .most_running = 1, .block_tokens = 4, .pool_blocks = 100},
      make_slo({.classes = {{.ttft_s = 10}, {.ttft_s = 1}}}));
  engine.add({.tag = 0, .prompt_tokens = 8, .most_output_tokens = 3, .service_class = 0});
  engine.add({.tag = 1, .prompt_tokens = 8, .most_output_tokens = 3, .service_class = 1});
  engine.add({.tag = 2, .prompt_tokens = 8, .most_output_tokens = 3, .service_class = 0});
  engine.run();
  EXPECT_EQ(engine.end_order, (std::vector<std::uint64_t>{1, 0, 2}));
}

TEST(Slo, WhoIsTooLateCostsNobodyElseThePromise) {
  // 0.1 s to serve one, 0.35 s promised: in the order of arrival everyone behind is late as well.
  const auto kept = [](std::unique_ptr<SchedulingPolicy> policy) {
    CheckedEngine engine(
        {.token_budget = 64, .most_running = 1, .block_tokens = 4, .pool_blocks = 100},
        std::move(policy));
    // Twice as many as can be served.
    for (std::uint64_t tag = 0; tag < 40; ++tag) {
      engine.add({.tag = tag, .prompt_tokens = 8, .most_output_tokens = 10});
      for (int i = 0; i < 5; ++i) engine.step();
    }
    engine.run();
    std::size_t count = 0;
    for (const auto& [tag, one] : engine.ended) {
      count += one.first_token_s - one.arrived_s <= 0.35 ? 1 : 0;
    }
    return count;
  };
  const SloOptions options{.classes = {{.ttft_s = 0.35}}, .prefill_s_per_token = 0.01 / 8};
  EXPECT_GE(kept(make_slo(options)), 18U);
  EXPECT_LE(kept(make_sarathi()), 10U);
}

TEST(Slo, WhoIsLateIsServedInTheEnd) {
  CheckedEngine engine(
      {.token_budget = 64, .most_running = 1, .block_tokens = 4, .pool_blocks = 100},
      make_slo({.classes = {{.ttft_s = 0.1}}}));
  for (std::uint64_t tag = 0; tag < 400; ++tag) {
    engine.add({.tag = tag, .prompt_tokens = 8, .most_output_tokens = 10});
    for (int i = 0; i < 5; ++i) engine.step();
  }
  // Ten times its promise, and those late ones that were before it.
  EXPECT_TRUE(engine.ended.contains(4));
  EXPECT_TRUE(engine.ended.contains(20));
  engine.run();
}

}  // namespace
}  // namespace nearkv::scheduler::test

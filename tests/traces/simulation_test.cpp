// Whole simulations: conservation, sharing, workloads.
#include "simulation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <list>
#include <set>

#include "support/seed.hpp"
#include "support/temporary_folder.hpp"
#include "workloads/draw.hpp"

namespace nearkv::traces::test {
namespace {

Report simulate(const Cluster& cluster, WorkloadConfig config) {
  config.block_tokens = cluster.engine.block_tokens;
  config.names_all_blocks = cluster.engine.prefill_replicas > 0;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Simulation> simulation;
  std::string reason;
  EXPECT_EQ(make_workload(config, &workload, &reason), Status::kOk) << reason;
  EXPECT_EQ(Simulation::open(cluster, 0, workload.get(), &simulation, &reason), Status::kOk)
      << reason;
  EXPECT_EQ(simulation->run(&reason), Status::kOk) << reason;
  return simulation->report();
}

TierConfig pool_of(double capacity_bytes) {
  return {.name = "cxl", .capacity_bytes = capacity_bytes, .bytes_per_s = 1e11, .is_shared = true};
}

TEST(Simulation, EachRequestIsServedOnceWhateverThePolicy) {
  for (const std::string_view policy : scheduler::policy_names()) {
    Cluster cluster;
    cluster.engine.policy = policy;
    cluster.engine.token_budget = 8192;
    cluster.engine.replicas = 3;
    cluster.engine.pool_bytes = 6e9;
    cluster.tiers = {pool_of(1e12)};
    for (const char* kind : {"poisson", "closed", "agents", "rag", "rollout"}) {
      const WorkloadConfig config{.kind = kind,
                                  .requests = 200,
                                  .rate_per_s = 20,
                                  .prompt_tokens = 500,
                                  .output_tokens = 50,
                                  .prompt_spread = Spread::kExponential,
                                  .output_spread = Spread::kExponential,
                                  .prefix_tokens = 100,
                                  .prefixes = 3,
                                  .users = 10,
                                  .samples = 4};
      const Report report = simulate(cluster, config);
      EXPECT_EQ(report.requests, config.kind == "rollout" ? 800U : 200U) << policy << ", " << kind;
      EXPECT_EQ(report.preemptions > 0 && policy == "orca", false);
    }
  }
}

TEST(Simulation, TheSameSeedIsTheSameReport) {
  Cluster cluster;
  const WorkloadConfig config{.requests = 500, .rate_per_s = 20};
  const Report first = simulate(cluster, config);
  const Report second = simulate(cluster, config);
  EXPECT_EQ(first.ttft_s.mean, second.ttft_s.mean);
  EXPECT_EQ(first.steps, second.steps);
}

TEST(Simulation, OneRequestAloneIsTheSumOfItsSteps) {
  Cluster cluster;
  const Report report =
      simulate(cluster, {.requests = 1, .prompt_tokens = 1000, .output_tokens = 10});
  scheduler::Iteration iteration;
  iteration.prefills = {{.request = 0, .tokens = 1000, .context_tokens = 0}};
  const StepCost cost(cluster, 0);
  Seconds sum_s = cost.of(iteration).duration_s;
  EXPECT_NEAR(report.ttft_s.mean, sum_s, 1e-12);
  for (std::uint32_t i = 0; i < 9; ++i) {
    iteration.prefills.clear();
    iteration.decodes = {{.request = 0, .tokens = 1, .context_tokens = 1000 + i}};
    sum_s += cost.of(iteration).duration_s;
  }
  EXPECT_NEAR(report.latency_s.mean, sum_s, 1e-12);
  EXPECT_EQ(report.steps, 10U);
}

TEST(Simulation, ASharedPoolServesWhatAnotherReplicaComputed) {
  Cluster cluster;
  cluster.engine.replicas = 4;
  cluster.engine.balances_load = false;
  cluster.engine.pool_bytes = 2000 * cluster.model.kv_bytes_per_token;
  const WorkloadConfig config{.kind = "rag",
                              .requests = 400,
                              .rate_per_s = 0.5,
                              .prompt_tokens = 10,
                              .output_tokens = 2,
                              .documents = 20,
                              .document_tokens = 1600,
                              .zipf_exponent = 0};
  cluster.tiers = {pool_of(1e12)};
  const double shared = simulate(cluster, config).cached_share;
  cluster.tiers[0].is_shared = false;
  const double own = simulate(cluster, config).cached_share;
  // All but the first reading of each document, by anyone or by each of four replicas.
  EXPECT_NEAR(shared, (1 - 20.0 / 400) * 1600 / 1610, 0.005);
  EXPECT_NEAR(own, (1 - 80.0 / 400) * 1600 / 1610, 0.01);
}

TEST(Simulation, DisaggregationMovesEachPromptOnce) {
  Cluster cluster;
  cluster.engine.replicas = 2;
  cluster.engine.prefill_replicas = 1;
  cluster.tiers = {pool_of(1e13)};
  const WorkloadConfig config{
      .requests = 300, .rate_per_s = 5, .prompt_tokens = 1605, .output_tokens = 20};
  const Report report = simulate(cluster, config);
  EXPECT_EQ(report.requests, 300U);
  const double bytes = 300 * 100 * cluster.block_bytes();
  EXPECT_DOUBLE_EQ(report.moved.back().read_bytes, bytes);
  EXPECT_DOUBLE_EQ(report.moved.back().written_bytes, bytes);
  EXPECT_NEAR(report.tpot_s.p99, report.tpot_s.p50, report.tpot_s.p50)
      << "no prompt comes between tokens";
}

TEST(Simulation, PrefetchAndStepsServeARingOfAgents) {
  Cluster cluster;
  cluster.engine.policy = "agent_steps";
  cluster.engine.pool_bytes = 12'000 * cluster.model.kv_bytes_per_token;
  cluster.tiers = {{.name = "dram", .capacity_bytes = 1e12, .bytes_per_s = 2e9}};
  const WorkloadConfig config{.kind = "agents",
                              .requests = 400,
                              .prompt_tokens = 100,
                              .output_tokens = 50,
                              .users = 1,
                              .agents = 6,
                              .fixed_tokens = 4000};
  const Report by_age = simulate(cluster, config);
  cluster.engine.eviction = "step_graph";
  const Report by_steps = simulate(cluster, config);
  EXPECT_LT(by_steps.ttft_s.mean, 0.8 * by_age.ttft_s.mean);
}

TEST(Tier, TheLeastRecentlyUsedLeaves) {
  Tier tier({.name = "t", .capacity_bytes = 30, .bytes_per_s = 10}, 10);
  const std::vector<BlockHash> hashes{1, 2, 3, 1, 4};
  tier.store(hashes);
  EXPECT_TRUE(tier.holds(1));
  EXPECT_FALSE(tier.holds(2));
  EXPECT_DOUBLE_EQ(tier.bytes_stored(), 40);
}

TEST(LruBlocks, RandomUse) {
  // Against a list that is searched from its newest block on.
  constexpr std::size_t kCapacity = 300;
  auto random = nearkv::test::case_random(0);
  LruBlocks blocks(kCapacity);
  std::list<BlockHash> newest_first;
  for (int use = 0; use < 100'000; ++use) {
    const BlockHash hash = nearkv::test::pick(random, 0, 500);
    const bool is_new = std::erase(newest_first, hash) == 0;
    ASSERT_EQ(blocks.holds(hash), !is_new) << use;
    ASSERT_EQ(blocks.use(hash), is_new) << use;
    newest_first.push_front(hash);
    if (newest_first.size() <= kCapacity) continue;
    ASSERT_FALSE(blocks.holds(newest_first.back())) << use;
    newest_first.pop_back();
  }
}

TEST(TierStack, AnAnswerIsNotRememberedBeyondItsTruth) {
  const TierConfig tier{.name = "a", .capacity_bytes = 40, .bytes_per_s = 10, .latency_s = 0};
  TierStack stack({std::make_shared<Tier>(tier, 10)});
  const std::vector<BlockHash> hashes{1, 2, 3};
  stack.store(std::span(hashes).first(1), 0);
  EXPECT_EQ(stack.find(hashes, 0).blocks, 1U);
  stack.store(hashes, 0);
  EXPECT_EQ(stack.find(hashes, 0).blocks, 3U);
  EXPECT_EQ(stack.find(std::span(hashes).first(2), 0).blocks, 2U);
  stack.store(std::vector<BlockHash>{4, 5, 6, 7}, 0);
  EXPECT_EQ(stack.find(hashes, 0).blocks, 0U);
}

TEST(TierStack, TiersLoadBesideEachOther) {
  const TierConfig fast{.name = "a", .capacity_bytes = 20, .bytes_per_s = 10, .latency_s = 0};
  const TierConfig slow{
      .name = "b", .capacity_bytes = 100, .bytes_per_s = 5, .latency_s = 1, .block_s = 0.5};
  TierStack stack({std::make_shared<Tier>(fast, 10), std::make_shared<Tier>(slow, 10)});
  const std::vector<BlockHash> hashes{1, 2, 3, 4, 5};
  stack.store(std::span(hashes).first(4), 0);
  // The fast one has the last two: 2 s; the slow one 4 s of bytes, 1 s of blocks, 1 s of latency.
  const auto found = stack.find(hashes, 0);
  EXPECT_EQ(found.blocks, 4U);
  EXPECT_DOUBLE_EQ(found.duration_s, 6);
  EXPECT_DOUBLE_EQ(stack.find(hashes, 0).duration_s, 6) << "asking changes nothing";
  EXPECT_DOUBLE_EQ(stack.load(std::span(hashes).first(4), 0), 6);
  EXPECT_GT(stack.find(hashes, 0).duration_s, 6) << "the links are busy now";
}

TEST(TierStack, WhatIsWrittenIsThereWhenItHasArrived) {
  const TierConfig config{.name = "a",
                          .capacity_bytes = 100,
                          .bytes_per_s = 10,
                          .latency_s = 0,
                          .write_bytes_per_s = 5,
                          .is_shared = true};
  TierStack stack({std::make_shared<Tier>(config, 10)});
  const std::vector<BlockHash> hashes{1, 2, 3};
  // 2 blocks of 10 bytes at 5 a second, then one more behind them; the first two cost nothing anew.
  stack.store(std::span(hashes).first(2), 0);
  EXPECT_DOUBLE_EQ(stack.written_s(), 4);
  stack.store(std::span(hashes).last(1), 1);
  EXPECT_DOUBLE_EQ(stack.written_s(), 6);
  EXPECT_EQ(stack.find(hashes, 3.9).blocks, 0U);
  EXPECT_EQ(stack.find(hashes, 4).blocks, 2U);
  EXPECT_EQ(stack.find(hashes, 6).blocks, 3U);
  stack.store(std::span(hashes).first(2), 7);
  EXPECT_DOUBLE_EQ(stack.written_s(), 7);
}

TEST(Simulation, WhoDecodesWaitsForWhatIsWritten) {
  Cluster cluster;
  cluster.engine.replicas = 2;
  cluster.engine.prefill_replicas = 1;
  cluster.tiers = {pool_of(1e13)};
  const WorkloadConfig config{.requests = 1, .prompt_tokens = 1605, .output_tokens = 20};
  const Report at_once = simulate(cluster, config);
  cluster.tiers[0].write_bytes_per_s = 1e9;
  const Report written = simulate(cluster, config);
  EXPECT_DOUBLE_EQ(written.ttft_s.mean, at_once.ttft_s.mean);
  // 100 blocks, once over the link before the other replica reads them.
  EXPECT_NEAR(written.latency_s.mean - at_once.latency_s.mean,
              100 * cluster.block_bytes() / 1e9 + cluster.tiers[0].latency_s, 1e-9);
  EXPECT_EQ(written.moved.back().read_bytes, at_once.moved.back().read_bytes);
}

TEST(Simulation, WhoGetsWholeBlocksComputesTheRestAndTheFirstToken) {
  Cluster cluster;
  cluster.engine.replicas = 2;
  cluster.engine.prefill_replicas = 1;
  cluster.tiers = {pool_of(1e13)};
  cluster.gpu.step_overhead_s = 0;
  cluster.gpu.prefill_s_by_tokens = {{5, 0.25}, {1605, 1}};
  cluster.gpu.decode_s_by_sequences = {{1, 0.125}};
  const WorkloadConfig config{.requests = 1, .prompt_tokens = 1605, .output_tokens = 9};
  const Report whole = simulate(cluster, config);
  cluster.engine.hands_over_blocks = true;
  const Report blocks = simulate(cluster, config);
  const TierConfig& pool = cluster.tiers[0];
  const Seconds load_s = 100 * (pool.block_s + cluster.block_bytes() / pool.bytes_per_s);
  EXPECT_DOUBLE_EQ(whole.ttft_s.mean, 1);
  EXPECT_NEAR(blocks.ttft_s.mean, 1 + load_s + pool.latency_s + 0.25, 1e-9);
  EXPECT_NEAR(blocks.tpot_s.mean, 0.125, 1e-9);
  EXPECT_EQ(blocks.cached_share, 0) << "what is loaded was computed for it";
  EXPECT_EQ(blocks.moved.back().read_bytes, 100 * cluster.block_bytes());
}

TEST(Simulation, ATimeBetweenTokensIsBrokenByOnePromptThatTheirMeanForgives) {
  Cluster cluster;
  cluster.engine.policy = "orca";
  cluster.engine.token_budget = 1500;
  cluster.gpu.step_overhead_s = 0;
  cluster.gpu.prefill_s_by_tokens = {{1000, 1}, {4000, 4}};
  cluster.gpu.decode_s_by_sequences = {{1, 0.01}, {2, 0.01}};
  cluster.promise = {.ttft_s = 100, .tpot_s = 0.1};
  // A step has room for one prompt: the second one's stands between tokens of the first.
  const WorkloadConfig config{
      .kind = "closed", .requests = 2, .prompt_tokens = 1000, .output_tokens = 101, .users = 2};
  const Report mean = simulate(cluster, config);
  EXPECT_EQ(mean.kept, 1);
  EXPECT_EQ(mean.longest_tbt_s.p99, 0) << "nobody asked";
  cluster.promise.tbt_s = 0.5;
  const Report each = simulate(cluster, config);
  EXPECT_DOUBLE_EQ(each.tpot_s.mean, mean.tpot_s.mean);
  EXPECT_DOUBLE_EQ(each.latency_s.mean, mean.latency_s.mean);
  EXPECT_EQ(each.kept, 0.5);
  EXPECT_NEAR(each.longest_tbt_s.p99, 1.01, 1e-9) << "one prompt, and a token beside it";
}

TEST(Failures, WhatWasUnderWayIsComputedAgainWhenTheOnlyReplicaIsBack) {
  Cluster cluster;
  const WorkloadConfig config{.requests = 1, .prompt_tokens = 1000, .output_tokens = 10};
  const Report whole = simulate(cluster, config);
  const StepCost cost(cluster, 0);
  const auto prefill_s = [&](std::uint32_t tokens) {
    scheduler::Iteration iteration;
    iteration.prefills = {{.request = 0, .tokens = tokens, .context_tokens = 0}};
    return cost.of(iteration).duration_s;
  };
  const auto decode_s = [&](std::uint32_t context_tokens) {
    scheduler::Iteration iteration;
    iteration.decodes = {{.request = 0, .tokens = 1, .context_tokens = context_tokens}};
    return cost.of(iteration).duration_s;
  };
  // It has 4 tokens when its fifth is lost with the machine.
  Seconds at_s = prefill_s(1000) + decode_s(1003) / 2;
  for (std::uint32_t i = 0; i < 3; ++i) at_s += decode_s(1000 + i);
  // A request arrives when a gap of Poisson's has passed, which the duration leaves out.
  const Seconds arrived_s = -std::log(Draw(config.seed).uniform());
  // The second time it is back before the step that was lost would have ended.
  for (const Seconds down_s : {30.0, 1e-5}) {
    cluster.failures = {{.at_s = arrived_s + at_s, .replica = 0, .down_s = down_s}};
    const Report report = simulate(cluster, config);
    EXPECT_NEAR(report.ttft_s.mean, whole.ttft_s.mean, 1e-9);
    Seconds expected_s = at_s + down_s + prefill_s(1004);
    for (std::uint32_t i = 0; i < 5; ++i) expected_s += decode_s(1004 + i);
    EXPECT_NEAR(report.latency_s.mean, expected_s, 1e-9);
    EXPECT_EQ(report.steps, 5U + 6U);
  }
}

TEST(Failures, AnotherReplicaGoesOnWithWhatASharedTierHas) {
  Cluster cluster;
  cluster.engine.replicas = 2;
  cluster.failures = {{.at_s = 10, .replica = 0, .down_s = 1000}};
  const WorkloadConfig config{.requests = 40,
                              .rate_per_s = 20,
                              .prompt_tokens = 8000,
                              .output_tokens = 1000,
                              .prefix_tokens = 8000,
                              .prefixes = 40};
  const Report alone = simulate(cluster, config);
  cluster.tiers = {pool_of(1e13)};
  const Report shared = simulate(cluster, config);
  EXPECT_EQ(alone.requests, 40U);
  EXPECT_EQ(shared.requests, 40U);
  EXPECT_GT(shared.moved.back().read_bytes, 0);
  EXPECT_LT(shared.duration_s, alone.duration_s);
  cluster.failures.clear();
  EXPECT_LT(simulate(cluster, config).duration_s, shared.duration_s);
}

TEST(Failures, EachRequestIsServedOnceWhateverFails) {
  for (const std::string_view policy : scheduler::policy_names()) {
    for (const std::uint64_t prefills : {0U, 2U}) {
      Cluster cluster;
      cluster.engine.policy = policy;
      cluster.engine.token_budget = 8192;
      cluster.engine.replicas = 4;
      cluster.engine.prefill_replicas = prefills;
      cluster.tiers = {pool_of(1e12)};
      cluster.tiers[0].write_bytes_per_s = 1e10;
      // Twice at once, and all of them for a while.
      for (std::uint64_t i = 0; i < 12; ++i) {
        cluster.failures.push_back(
            {.at_s = 0.7 * static_cast<double>(i), .replica = i % 4, .down_s = i < 6 ? 3.0 : 0.1});
      }
      const WorkloadConfig config{.requests = 300,
                                  .rate_per_s = 30,
                                  .prompt_tokens = 500,
                                  .output_tokens = 200,
                                  .prompt_spread = Spread::kExponential,
                                  .output_spread = Spread::kExponential};
      EXPECT_EQ(simulate(cluster, config).requests, 300U) << policy << ", " << prefills;
    }
  }
}

TEST(Draw, LengthsHaveTheirMean) {
  Draw draw(3);
  for (const Spread spread : {Spread::kConstant, Spread::kExponential, Spread::kLognormal}) {
    double sum = 0;
    for (int i = 0; i < 200'000; ++i) sum += draw.tokens(500, spread, 1);
    EXPECT_NEAR(sum / 200'000, 500, 8);
  }
}

TEST(Rag, FameFollowsZipf) {
  std::unique_ptr<Workload> workload;
  std::string reason;
  ASSERT_EQ(
      make_workload({.kind = "rag", .requests = 50'000, .documents = 100, .document_tokens = 16},
                    &workload, &reason),
      Status::kOk);
  std::map<scheduler::BlockHash, int> counts;
  while (const auto arrival = workload->next()) ++counts[arrival->request.block_hashes[0]];
  std::vector<int> sorted;
  for (const auto& [hash, count] : counts) sorted.push_back(count);
  std::ranges::sort(sorted, std::greater());
  EXPECT_NEAR(sorted[0] / static_cast<double>(sorted[9]), 10, 1);
}

TEST(TraceReplay, BlocksAreCutAndTimesSpedUp) {
  nearkv::test::TemporaryFolder folder;
  const std::string path = folder.file("trace.jsonl");
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 1100, "output_length": 3, "hash_ids": [0, 1, 2]})"
      << "\n"
      << R"({"timestamp": 4000, "input_length": 1024, "output_length": 0, "hash_ids": [0, 3]})";
  std::unique_ptr<Workload> workload;
  std::string reason;
  ASSERT_EQ(make_workload(
                {.kind = "trace", .trace_speed = 2, .traces = {path, path}, .block_tokens = 256},
                &workload, &reason),
            Status::kOk);
  const auto first = workload->next();
  const auto second = workload->next();
  const auto third = workload->next();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->request.block_hashes.size(), 4U) << "the last block is not full";
  EXPECT_EQ(first->request.block_hashes[1], second->request.block_hashes[1]);
  EXPECT_NE(first->request.block_hashes[2], second->request.block_hashes[2]);
  EXPECT_DOUBLE_EQ(second->at_s, 2);
  EXPECT_EQ(second->request.most_output_tokens, 1U);
  EXPECT_NEAR(third->at_s, 2, 0.001);
  EXPECT_NE(third->request.block_hashes[0], first->request.block_hashes[0]);
}

TEST(TraceReplay, ATracesBlocksMayBeOfAnotherSizeAndTheLastOneMayHaveNoId) {
  nearkv::test::TemporaryFolder folder;
  const std::string path = folder.file("trace.jsonl");
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 40, "output_length": 1, "hash_ids": [7, 9]})"
      << "\n"
      << R"({"timestamp": 1, "input_length": 48, "output_length": 1, "hash_ids": [7, 8, 3]})";
  WorkloadConfig config;
  std::string reason;
  ASSERT_EQ(parse_workload("[workload]\nkind = \"trace\"\ntrace_block_tokens = 16", "c.toml",
                           &config, &reason),
            Status::kOk)
      << reason;
  config.traces = {path};
  std::unique_ptr<Workload> workload;
  ASSERT_EQ(make_workload(config, &workload, &reason), Status::kOk) << reason;
  const auto first = workload->next()->request.block_hashes;
  const auto second = workload->next()->request.block_hashes;
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_NE(first[1], second[1]);
}

TEST(TraceReplay, NoBlockOfOneFileIsOneOfAnothers) {
  nearkv::test::TemporaryFolder folder;
  const std::string path = folder.file("trace.jsonl");
  // Ids of 64 bits, as hashes are.
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [281474976710663]})";
  std::unique_ptr<Workload> workload;
  std::string reason;
  ASSERT_EQ(make_workload({.kind = "trace", .traces = {path, path}}, &workload, &reason),
            Status::kOk);
  const auto first = workload->next();
  const auto second = workload->next();
  EXPECT_NE(first->request.block_hashes[0], second->request.block_hashes[0]);
}

TEST(Metrics, ByHand) {
  Cluster cluster;
  cluster.promise = {.ttft_s = 1, .tpot_s = 0.5};
  cluster.prices.gpu_hour = 3600;
  Metrics metrics(cluster);
  metrics.add({.arrived_s = 0,
               .first_token_s = 1,
               .ended_s = 2,
               .prompt_tokens = 10,
               .output_tokens = 3,
               .cached_tokens = 5});
  metrics.add(
      {.arrived_s = 1, .first_token_s = 4, .ended_s = 4, .prompt_tokens = 10, .output_tokens = 1});
  const Report report = metrics.report();
  EXPECT_DOUBLE_EQ(report.duration_s, 4);
  EXPECT_DOUBLE_EQ(report.ttft_s.mean, 2);
  EXPECT_DOUBLE_EQ(report.ttft_s.p50, 1);
  EXPECT_DOUBLE_EQ(report.ttft_s.p99, 3);
  EXPECT_DOUBLE_EQ(report.tpot_s.mean, 0.5);
  EXPECT_DOUBLE_EQ(report.kept, 0.5);
  EXPECT_DOUBLE_EQ(report.goodput_per_s, 0.25);
  EXPECT_DOUBLE_EQ(report.cached_share, 0.25);
  EXPECT_DOUBLE_EQ(report.dollars, 4);
}

}  // namespace
}  // namespace nearkv::traces::test

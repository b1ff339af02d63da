// The planner against plans made on paper.
#include "planner.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "support/temporary_folder.hpp"

namespace nearkv::traces::test {
namespace {

/// A prompt of 500 tokens takes 0.5 s of one GPU and half of it on two; a token 10 ms and 5 ms,
/// whoever else decodes, up to ten. KV goes from one replica to another at no time.
Cluster paper_cluster() {
  Cluster cluster;
  cluster.model = {.parameters = 1000,
                   .bytes_per_parameter = 2,
                   .layers = 1e-9,
                   .query_heads = 4,
                   .kv_bytes_per_token = 1e-3};
  cluster.gpu = {.flops = 2e6,
                 .hbm_bytes_per_s = 2e5,
                 .hbm_bytes = 1e6,
                 .flops_share = 1,
                 .hbm_share = 1,
                 .step_overhead_s = 0,
                 .exchange_bytes_per_s = 1e18};
  cluster.tiers = {{.name = "pool",
                    .capacity_bytes = 1e9,
                    .bytes_per_s = 1e18,
                    .latency_s = 0,
                    .is_shared = true}};
  cluster.promise = {.ttft_s = 0.6, .tpot_s = 0.0105};
  return cluster;
}

class Planner : public testing::Test {
 protected:
  /// Requests of 500 tokens, and 101 of output, one as long after the other as the rate says.
  WorkloadConfig even_trace(int requests = 60, int output_tokens = 101) {
    const std::string path = folder_.file("trace.jsonl");
    std::ofstream output(path);
    for (int i = 0; i < requests; ++i) {
      output << R"({"timestamp": )" << 1000 * i << R"(, "input_length": 500, "output_length": )"
             << output_tokens << R"(, "hash_ids": [)" << i << "]}\n";
    }
    return {.kind = "trace", .requests = 1000, .traces = {path}};
  }

  std::vector<Planned> planned_for(const Cluster& cluster, const WorkloadConfig& workload,
                                   const PlanOptions& options) {
    std::vector<Planned> planned;
    std::string reason;
    EXPECT_EQ(plan(cluster, workload, options, {}, &planned, &reason), Status::kOk) << reason;
    return planned;
  }

  std::string refused(const Cluster& cluster, const WorkloadConfig& workload,
                      const PlanOptions& options) {
    std::vector<Planned> planned;
    std::string reason;
    EXPECT_EQ(plan(cluster, workload, options, {}, &planned, &reason), Status::kBadArgument);
    return reason;
  }

  static std::map<std::string, double> goodputs(const std::vector<Planned>& planned) {
    std::map<std::string, double> by_name;
    for (const Planned& one : planned) by_name[one.layout.name()] = one.goodput_per_s;
    return by_name;
  }

  nearkv::test::TemporaryFolder folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Planner, FindsThePlanMadeOnPaper) {
  const PlanOptions options{.limits = {.most_gpus = 2, .degrees = {1}}, .share = 1};
  const auto planned = planned_for(paper_cluster(), even_trace(), options);
  const auto found = goodputs(planned);
  ASSERT_EQ(found.size(), 3U);
  // A prompt between another's tokens breaks that one's TPOT: it must have ended, after 1.5 s.
  EXPECT_NEAR(found.at("1 x TP1, steps of 2048"), 1 / 1.5, 0.015);
  EXPECT_NEAR(found.at("2 x TP1, steps of 2048"), 2 / 1.5, 0.03);
  // Apart, prompts follow each other after half a second, and two or three decode at once.
  EXPECT_NEAR(found.at("1 x TP1 prefill + 1 x TP1 decode, steps of 2048"), 1 / 0.5, 0.03);
  EXPECT_TRUE(planned.front().layout.is_apart());
  EXPECT_NEAR(planned.front().per_gpu(), 1, 0.015);
  EXPECT_NEAR(planned.front().ttft_s, 0.55, 0.05);
  EXPECT_NEAR(planned.front().tpot_s, 0.0101, 2e-4) << "10 ms, and a step of waiting of 100";
}

TEST_F(Planner, ParallelismHalvesAPromptAndServesItTwiceAsOften) {
  const PlanOptions options{.limits = {.most_gpus = 2, .degrees = {1, 2}, .may_split = false},
                            .share = 1};
  const auto found = goodputs(planned_for(paper_cluster(), even_trace(200, 1), options));
  EXPECT_NEAR(found.at("1 x TP1, steps of 2048"), 1 / 0.5, 0.03);
  EXPECT_NEAR(found.at("1 x TP2, steps of 2048"), 1 / 0.25, 0.06);
  Cluster fast = paper_cluster();
  fast.gpu.flops *= 1000;
  fast.gpu.hbm_bytes_per_s *= 1000;
  fast.promise.ttft_s /= 1000;
  const auto faster = goodputs(planned_for(fast, even_trace(200, 1), options));
  EXPECT_NEAR(faster.at("1 x TP1, steps of 2048"), 1000 / 0.5, 30);
}

TEST_F(Planner, WithoutAPoolBetweenReplicasDoBoth) {
  Cluster cluster = paper_cluster();
  cluster.tiers.clear();
  const PlanOptions options{.limits = {.most_gpus = 2, .degrees = {1, 2}, .may_split = false}};
  const auto planned = planned_for(cluster, even_trace(), options);
  EXPECT_EQ(planned.size(), 3U);
}

TEST_F(Planner, ALooserPromiseNeverServesLess) {
  Cluster cluster = paper_cluster();
  const WorkloadConfig workload{.seed = 5,
                                .requests = 150,
                                .prompt_tokens = 300,
                                .output_tokens = 40,
                                .prompt_spread = Spread::kLognormal,
                                .output_spread = Spread::kExponential};
  PlanOptions options{.limits = {.most_gpus = 3, .degrees = {1, 2}}};
  std::map<std::string, double> stricter;
  for (const auto& [ttft_s, tpot_s, share] : {std::tuple{0.8, 0.015, 0.9},
                                              {1.2, 0.015, 0.9},
                                              {1.2, 0.03, 0.9},
                                              {1.2, 0.03, 0.7},
                                              {5.0, 0.2, 0.7}}) {
    cluster.promise = {.ttft_s = ttft_s, .tpot_s = tpot_s};
    options.share = share;
    const auto looser = goodputs(planned_for(cluster, workload, options));
    for (const auto& [name, goodput_per_s] : stricter) {
      EXPECT_GE(looser.at(name), goodput_per_s) << name << ": TTFT " << ttft_s;
    }
    stricter = looser;
  }
  EXPECT_GT(stricter.begin()->second, 0);
}

TEST_F(Planner, TheSameSeedIsTheSamePlanOnAnyThreads) {
  const WorkloadConfig workload{.seed = 5, .requests = 100, .prompt_tokens = 300};
  PlanOptions options{.limits = {.most_gpus = 3, .degrees = {1, 2}}};
  Cluster cluster = paper_cluster();
  cluster.promise = {.ttft_s = 2, .tpot_s = 0.1};
  const auto alone = planned_for(cluster, workload, options);
  options.threads = 3;
  const auto together = planned_for(cluster, workload, options);
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].layout.name(), together[i].layout.name());
    EXPECT_EQ(alone[i].goodput_per_s, together[i].goodput_per_s);
    EXPECT_EQ(alone[i].report.ttft_s.mean, together[i].report.ttft_s.mean);
  }
}

TEST_F(Planner, SaysWhichPromiseCannotBeKept) {
  const PlanOptions options{.limits = {.most_gpus = 2, .degrees = {1, 2}}};
  Cluster cluster = paper_cluster();
  cluster.promise.ttft_s = 0.2;
  EXPECT_HAS(refused(cluster, even_trace(), options), "the promised TTFT of 0.2 s for 90 %");
  EXPECT_HAS(refused(cluster, even_trace(), options), "0.25 s is the best, of 1 x TP2");
  cluster.promise = {.ttft_s = 0.6, .tpot_s = 0.004};
  EXPECT_HAS(refused(cluster, even_trace(), options), "the promised TPOT of 0.004 s");
}

TEST_F(Planner, SaysWhatDoesNotFit) {
  PlanOptions options{.limits = {.most_gpus = 2, .degrees = {1, 2, 4}}};
  Cluster cluster = paper_cluster();
  cluster.gpu.hbm_bytes = 1000;  // Weights take 2000.
  EXPECT_HAS(refused(cluster, even_trace(), options), "no layout of at most 2 GPUs");
  EXPECT_HAS(refused(cluster, even_trace(), options), "more gpu.count or gpu.hbm_bytes");
  options.limits.most_gpus = 4;
  const auto planned = planned_for(cluster, even_trace(), options);
  EXPECT_EQ(planned.front().layout.gpus, 4);
  EXPECT_GT(std::ranges::count(planned, std::string(kNoRoom), &Planned::refused), 0);
  cluster.engine.pool_bytes = 0.1;  // Of 100 tokens.
  EXPECT_HAS(refused(cluster, even_trace(), options), "enlarge the pool, or shorten the request");
}

TEST_F(Planner, RefusesWhatHasNoRate) {
  EXPECT_HAS(refused(paper_cluster(), {.kind = "closed"}, {}), "take poisson, rag or trace");
  EXPECT_HAS(refused(paper_cluster(), even_trace(1), {}), "more --requests");
  EXPECT_HAS(refused(paper_cluster(), even_trace(), {.share = 1.5}), "at most 1");
  EXPECT_HAS(refused(paper_cluster(), even_trace(), {.limits = {.degrees = {3}}}),
             "divides the model's query heads");
}

}  // namespace
}  // namespace nearkv::traces::test

// Each policy against a plain reading of its paper or source, and on cases worked out by hand.
#include "policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using router::Candidate;
using router::Choice;
using router::CostModel;
using router::make_policy;
using router::Policy;
using router::PolicyOptions;
using router::Prompt;
using router::WorkerId;

constexpr double kNever = std::numeric_limits<double>::infinity();

std::unique_ptr<Policy> policy_of(std::string_view name, const PolicyOptions& options = {}) {
  std::unique_ptr<Policy> policy;
  EXPECT_EQ(make_policy(name, options, &policy), Status::kOk) << name;
  return policy;
}

Choice choose(Policy& policy, const Prompt& prompt, const std::vector<Candidate>& candidates) {
  Choice choice;
  EXPECT_EQ(policy.choose(prompt, candidates, &choice), Status::kOk);
  return choice;
}

struct Scene {
  Prompt prompt;
  std::vector<Candidate> candidates;
};

Scene random_scene(Random& random) {
  Scene scene;
  scene.prompt.blocks = pick(random, 0, 60);
  scene.prompt.tokens = scene.prompt.blocks * 16 + pick(random, 0, 15);
  const std::uint32_t count = pick(random, 1, 12);
  for (std::uint32_t i = 0; i < count; ++i) {
    Candidate each;
    each.worker = static_cast<WorkerId>(3 * i);
    std::uint32_t left = scene.prompt.blocks;
    for (std::uint32_t& blocks : each.prefix.blocks) {
      blocks = pick(random, 0, 2) == 0 ? 0 : pick(random, 0, left);
      left -= blocks;
    }
    each.load = {pick(random, 0, 9), pick(random, 0, 3000), pick(random, 0, 200)};
    each.prefill_tokens_per_s = pick(random, 0, 1) == 0 ? 0 : pick(random, 1000, 20000);
    scene.candidates.push_back(each);
  }
  return scene;
}

TEST(PolicyTest, RoundRobinGoesAround) {
  const auto policy = policy_of("round_robin");
  const std::vector<Candidate> three(3);
  std::map<std::size_t, int> counts;
  for (int i = 0; i < 30; ++i) {
    const std::size_t chosen = choose(*policy, {}, three).candidate;
    EXPECT_EQ(chosen, static_cast<std::size_t>(i % 3));
    ++counts[chosen];
  }
  EXPECT_EQ(counts.size(), 3U);
}

TEST(PolicyTest, LeastLoadIsNeverAboveAnother) {
  const auto policy = policy_of("least_load");
  for (std::uint64_t number = 0; number < 200; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const Scene scene = random_scene(random);
    const std::size_t chosen = choose(*policy, scene.prompt, scene.candidates).candidate;
    for (const Candidate& each : scene.candidates) {
      EXPECT_LE(scene.candidates[chosen].load.requests, each.load.requests);
      if (each.load.requests != scene.candidates[chosen].load.requests) continue;
      EXPECT_LE(scene.candidates[chosen].load.prefill_tokens, each.load.prefill_tokens);
    }
  }
}

TEST(PolicyTest, LongestPrefixWeighsTiers) {
  const auto policy = policy_of("longest_prefix");
  std::vector<Candidate> two(2);
  two[0].prefix.blocks = {0, 0, 0, 10};  // Worth 5 of the GPU's,
  two[1].prefix.blocks = {4, 0, 0, 0};
  EXPECT_EQ(choose(*policy, {160, 10}, two).candidate, 0U);
  two[1].prefix.blocks = {0, 7, 0, 0};  // 5.6.
  EXPECT_EQ(choose(*policy, {160, 10}, two).candidate, 1U);
  two[1].prefix = two[0].prefix;
  two[0].load.requests = 1;
  EXPECT_EQ(choose(*policy, {160, 10}, two).candidate, 1U);
}

/// selector.rs, worker_logit, line by line; for prompts and caches that are there.
double dynamo_logit(const PolicyOptions& options, const Scene& scene, const Candidate& worker) {
  const router::DynamoWeights& w = options.dynamo;
  const double block_size = options.cost.block_tokens;
  double min_active_prefill_tokens = kNever;
  for (const Candidate& each : scene.candidates) {
    min_active_prefill_tokens =
        std::min(min_active_prefill_tokens, static_cast<double>(each.load.prefill_tokens));
  }
  const double active = static_cast<double>(worker.load.prefill_tokens);
  const double cached = std::min<double>(worker.prefix.total() * block_size, scene.prompt.tokens);
  const double uncached_tokens = scene.prompt.tokens - cached;
  const double projected_tokens = active + uncached_tokens;
  const double raw_prefill_blocks = (projected_tokens + cached) / block_size;
  const double request_blocks = std::max(1.0, std::ceil(scene.prompt.tokens / block_size));
  const double excess = (active - min_active_prefill_tokens) / block_size;
  const double decay = 1 / (1 + w.overlap_score_credit_decay * (excess / request_blocks));
  const double overlap_credit_blocks = w.overlap_score_credit * decay * worker.prefix.blocks[0] +
                                       w.host_cache_hit_weight * worker.prefix.blocks[1] +
                                       w.disk_cache_hit_weight * worker.prefix.blocks[2] +
                                       w.shared_cache_multiplier * worker.prefix.blocks[3];
  const double adjusted = std::max(0.0, raw_prefill_blocks - overlap_credit_blocks);
  const double decode_blocks = static_cast<double>(worker.load.blocks) + request_blocks;
  return w.prefill_load_scale * adjusted + decode_blocks +
         w.decode_active_request_weight * static_cast<double>(worker.load.requests);
}

TEST(PolicyTest, DynamoIsItsSource) {
  for (std::uint64_t number = 0; number < 300; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const Scene scene = random_scene(random);
    PolicyOptions options;
    options.dynamo.overlap_score_credit_decay = pick(random, 0, 2);
    options.dynamo.shared_cache_multiplier = pick(random, 0, 1) * 0.5;
    options.dynamo.decode_active_request_weight = pick(random, 0, 3);
    options.dynamo.prefill_load_scale = pick(random, 1, 3);
    const Choice choice = choose(*policy_of("dynamo", options), scene.prompt, scene.candidates);
    double least = kNever;
    for (const Candidate& each : scene.candidates) {
      least = std::min(least, dynamo_logit(options, scene, each));
    }
    EXPECT_NEAR(choice.cost, least, 1e-9);
    EXPECT_NEAR(dynamo_logit(options, scene, scene.candidates[choice.candidate]), least, 1e-9);
  }
}

TEST(PolicyTest, DynamoDrawsAsOftenAsItsSoftmaxSays) {
  PolicyOptions options;
  options.dynamo.temperature = 0.5;
  const auto policy = policy_of("dynamo", options);
  std::vector<Candidate> three(3);
  for (std::size_t i = 0; i < 3; ++i) three[i].load.blocks = 10 * i;
  std::vector<double> counts(3);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[choose(*policy, {160, 10}, three).candidate];
  // Costs scaled to 0, 1/2 and 1, by the temperature to 0, 1 and 2.
  const double sum = 1 + std::exp(-1) + std::exp(-2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(counts[i] / kDraws, std::exp(-static_cast<double>(i)) / sum, 0.015);
  }
}

/// Algorithm 1 of the paper, lines 3 to 17.
std::pair<double, std::size_t> mooncake_choice(const PolicyOptions& options, const Scene& scene) {
  const CostModel& cost = options.cost;
  double best_prefix_len = 0;
  for (const Candidate& each : scene.candidates) {
    best_prefix_len = std::max<double>(best_prefix_len, each.prefix.total());
  }
  double ttft = kNever;
  std::size_t p = 0;
  for (std::size_t i = 0; i < scene.candidates.size(); ++i) {
    const Candidate& instance = scene.candidates[i];
    const double own = instance.prefix.total();
    const double rate = instance.prefill_tokens_per_s > 0 ? instance.prefill_tokens_per_s
                                                          : cost.prefill_tokens_per_s;
    double prefix_len = own;
    double t_transfer = 0;
    const double ratio = own == 0 ? (best_prefix_len > 0 ? kNever : 1) : best_prefix_len / own;
    if (ratio > options.mooncake.kvcache_balancing_threshold) {
      prefix_len = best_prefix_len;
      t_transfer = (best_prefix_len - own) * cost.block_bytes / cost.peer_bytes_per_s;
    }
    const double t_queue = static_cast<double>(instance.load.prefill_tokens) / rate;
    const double t_prefill = (scene.prompt.tokens - prefix_len * cost.block_tokens) / rate;
    if (ttft > t_transfer + t_queue + t_prefill) {
      ttft = t_transfer + t_queue + t_prefill;
      p = i;
    }
  }
  return {ttft, p};
}

TEST(PolicyTest, MooncakeIsItsAlgorithm1) {
  for (std::uint64_t number = 0; number < 300; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const Scene scene = random_scene(random);
    PolicyOptions options;
    options.mooncake.kvcache_balancing_threshold = pick(random, 1, 4);
    const Choice choice = choose(*policy_of("mooncake", options), scene.prompt, scene.candidates);
    const auto [ttft, p] = mooncake_choice(options, scene);
    EXPECT_NEAR(choice.cost, ttft, 1e-12);
    const auto again = mooncake_choice(
        options, {scene.prompt, scene.candidates});  // The same, whatever was asked before.
    EXPECT_EQ(again.second, p);
    if (choice.copy_from != Choice::kNobody) {
      EXPECT_GT(scene.candidates[choice.copy_from].prefix.total(),
                scene.candidates[choice.candidate].prefix.total());
    }
  }
}

TEST(PolicyTest, MooncakeRefusesWhatWouldBeLate) {
  PolicyOptions options;
  options.mooncake.ttft_slo_s = 0.05;
  const auto policy = policy_of("mooncake", options);
  Choice choice;
  const std::vector<Candidate> one(1);
  EXPECT_EQ(policy->choose({400, 25}, one, &choice), Status::kOk);
  EXPECT_EQ(policy->choose({600, 37}, one, &choice), Status::kBusy);
}

TEST(PolicyTest, LeastTtftWeighsLoadingAgainstComputing) {
  PolicyOptions options;
  options.cost.block_tokens = 16;
  const auto policy = policy_of("least_ttft", options);
  std::vector<Candidate> two(2);
  // 100 blocks of 1,600 tokens take 160 ms to compute; from a pool 43 ms to load.
  two[0].prefix.blocks = {0, 0, 0, 100};
  EXPECT_EQ(choose(*policy, {1600, 100}, two).candidate, 0U);
  EXPECT_NEAR(choose(*policy, {1600, 100}, two).cost, 1e-3 + 100 * (2 << 20) / 5e9, 1e-12);
  // Two seconds of other prompts before it are worse than either.
  two[0].load.prefill_tokens = 20000;
  EXPECT_EQ(choose(*policy, {1600, 100}, two).candidate, 1U);
  // A faster worker does in the same time what it does not have.
  two[0].load.prefill_tokens = 0;
  two[1].prefill_tokens_per_s = 100'000;
  EXPECT_EQ(choose(*policy, {1600, 100}, two).candidate, 1U);
}

TEST(PolicyTest, NoPolicyChoosesWhoIsNotThere) {
  for (const std::string_view name : router::kPolicyNames) {
    const auto policy = policy_of(name);
    for (std::uint64_t number = 0; number < 100; ++number) {
      Random random = case_random(number);
      const Scene scene = random_scene(random);
      const Choice choice = choose(*policy, scene.prompt, scene.candidates);
      EXPECT_LT(choice.candidate, scene.candidates.size()) << name;
      EXPECT_TRUE(std::isfinite(choice.cost)) << name;
      EXPECT_FALSE(choice.reason.empty()) << name;
    }
  }
}

TEST(PolicyTest, BadOptionsAreRefused) {
  std::unique_ptr<Policy> policy;
  EXPECT_EQ(make_policy("fastest", {}, &policy), Status::kNotFound);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refuses = [&](auto change) {
    PolicyOptions options;
    change(options);
    EXPECT_EQ(make_policy("dynamo", options, &policy), Status::kBadArgument);
  };
  refuses([&](PolicyOptions& o) { o.cost.block_tokens = 0; });
  refuses([&](PolicyOptions& o) { o.cost.block_bytes = nan; });
  refuses([&](PolicyOptions& o) { o.cost.prefill_tokens_per_s = 0; });
  refuses([&](PolicyOptions& o) { o.cost.peer_bytes_per_s = kNever; });
  refuses([&](PolicyOptions& o) { o.cost.tiers[1].weight = 1.5; });
  refuses([&](PolicyOptions& o) { o.cost.tiers[2].latency_s = -1; });
  refuses([&](PolicyOptions& o) { o.dynamo.overlap_score_credit = 2; });
  refuses([&](PolicyOptions& o) { o.dynamo.temperature = nan; });
  refuses([&](PolicyOptions& o) { o.mooncake.kvcache_balancing_threshold = 0.5; });
  refuses([&](PolicyOptions& o) { o.mooncake.ttft_slo_s = 0; });
}

}  // namespace
}  // namespace nearkv::test

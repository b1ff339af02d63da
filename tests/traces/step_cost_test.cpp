// Steps' times against sums on paper.
#include "step_cost.hpp"

#include <gtest/gtest.h>

namespace nearkv::traces::test {
namespace {

/// 100 parameters of 2 bytes, 2 layers of 4 heads of 8, 10 bytes of KV a token; 1,000 operations
/// and 100 bytes a second.
Cluster small() {
  Cluster cluster;
  cluster.model = {.parameters = 100,
                   .bytes_per_parameter = 2,
                   .layers = 2,
                   .query_heads = 4,
                   .kv_heads = 1,
                   .head_dim = 8,
                   .kv_bytes_per_token = 10};
  cluster.gpu = {.flops = 1000,
                 .hbm_bytes_per_s = 100,
                 .flops_share = 1,
                 .hbm_share = 1,
                 .step_overhead_s = 0};
  return cluster;
}

scheduler::Iteration decode_of(std::uint32_t sequences, std::uint32_t context_tokens) {
  scheduler::Iteration iteration;
  for (std::uint32_t i = 0; i < sequences; ++i) {
    iteration.decodes.push_back({.request = i, .tokens = 1, .context_tokens = context_tokens});
  }
  return iteration;
}

TEST(StepCost, ADecodeIsBoundByBytes) {
  // 200 of weights, 2 x 30 x 10 of KV; operations: 2 x 2 x 100 + 4 x 2 x 32 x 60 = 15,760.
  Cluster cluster = small();
  cluster.gpu.flops = 1e6;
  const auto cost = StepCost(cluster, 0).of(decode_of(2, 30));
  EXPECT_DOUBLE_EQ(cost.duration_s, 8.0);
  EXPECT_DOUBLE_EQ(cost.hbm_bytes, 600);
}

TEST(StepCost, APromptIsBoundByOperations) {
  scheduler::Iteration iteration;
  iteration.prefills.push_back({.request = 0, .tokens = 10, .context_tokens = 20});
  // 2 x 100 x 10, and 4 x 2 x 32 for each of 10 x (20 + 5) pairs.
  EXPECT_DOUBLE_EQ(StepCost(small(), 0).of(iteration).duration_s, (2000 + 256 * 250) / 1000.0);
}

TEST(StepCost, GpusShareAndExchange) {
  Cluster cluster = small();
  cluster.gpu.flops = 1e6;
  cluster.gpu.count = 4;
  cluster.gpu.exchange_bytes_per_s = 64;
  // 2 all-reduces x 2 layers x 2 sequences x 32 x 2 bytes x 2 x 3/4 = 768 bytes.
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 30)).duration_s, 8.0 / 4 + 768.0 / 64);
  // Each all-reduce goes around twice: 3 hops to sum, 3 to tell.
  cluster.gpu.exchange_latency_s = 0.125;
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 30)).duration_s,
                   8.0 / 4 + 768.0 / 64 + 2 * 2 * 6 * 0.125);
}

TEST(StepCost, AMixtureReadsTheWeightsThatItsTokensActivate) {
  Cluster cluster = small();
  cluster.gpu.flops = 1e9;
  cluster.model.active_parameters = 20;
  EXPECT_NEAR(StepCost(cluster, 0).of(decode_of(2, 0)).duration_s, 2 * 20 * 2 / 100.0, 1e-6);
  EXPECT_NEAR(StepCost(cluster, 0).of(decode_of(50, 0)).duration_s, 2.0, 1e-4);
}

TEST(StepCost, LayersWithAWindowReadNoMore) {
  Cluster cluster = small();
  cluster.model.window_layers_share = 0.5;
  cluster.model.window_tokens = 10;
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(1, 30)).hbm_bytes, 10 * (15 + 5));
}

TEST(StepCost, FarTokensArePulledOrReadByTheDevice) {
  Cluster cluster = small();
  cluster.gpu.flops = 1e9;
  cluster.far = {.is_used = true,
                 .resident_tokens = 10,
                 .pulled_tokens = 5,
                 .pulled_bytes_share = 0.5,
                 .device_bytes_share = 0.25,
                 .device_bytes_per_s = 50,
                 .exchange_bytes = 7,
                 .link_bytes_per_s = 16,
                 .layer_latency_s = 0.25};
  const auto cost = StepCost(cluster, 0).of(decode_of(2, 30));
  EXPECT_DOUBLE_EQ(cost.hbm_bytes, 2 * 15 * 10);
  EXPECT_DOUBLE_EQ(cost.link_bytes, 2 * (5 * 10 * 0.5 + 7));
  EXPECT_DOUBLE_EQ(cost.device_bytes, 2 * 20 * 10 * 0.25);
  const double gpu_s = (200 + 300) / 100.0;
  const double far_s = 64 / 16.0 + 2 * 0.25;
  EXPECT_DOUBLE_EQ(cost.duration_s, gpu_s + far_s);
  cluster.far.overlaps = true;
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 30)).duration_s, std::max(gpu_s, far_s));
}

TEST(StepCost, WhatDoesNotFitIsPulled) {
  Cluster cluster = small();
  cluster.far = {.is_used = true, .resident_bytes = 150, .pulled_share = 1};
  // Of 2 x 30 x 10 bytes a quarter is resident.
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 30)).link_bytes, 450);
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 7)).link_bytes, 0);
}

TEST(StepCost, TheDevicesCyclesAreThoseOfTheRtl) {
  // 283,259 cycles of 2.5 ns for 32,768 tokens of one KV head: 0.7 ms, 22 ns a token.
  const Model model{.layers = 1, .kv_heads = 1};
  EXPECT_NEAR(seconds_per_token(283'259, model) * 32'768, 708e-6, 1e-6);
  Cluster cluster = small();
  cluster.gpu.flops = 1e9;
  cluster.far = {.is_used = true, .device_engines = 4};
  const auto cost = StepCost(cluster, 2.0).of(decode_of(2, 30));
  EXPECT_DOUBLE_EQ(cost.duration_s, 2.0 + 2 * 30 * 2.0 / 4);
}

TEST(StepCost, MeasuredPromptsComeBeforeTheRoofline) {
  Cluster cluster = small();
  cluster.gpu.prefill_s_by_tokens = {{10, 1}, {20, 3}};
  scheduler::Iteration iteration;
  for (const auto& [tokens, seconds] :
       {std::pair{5U, 0.5}, {10U, 1.0}, {15U, 2.0}, {20U, 3.0}, {40U, 6.0}}) {
    iteration.prefills = {{.request = 0, .tokens = tokens, .context_tokens = 0}};
    EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(iteration).duration_s, seconds);
  }
}

TEST(StepCost, MeasuredTokensComeBesidePrompts) {
  Cluster cluster = small();
  cluster.gpu.prefill_s_by_tokens = {{10, 1}};
  cluster.gpu.decode_s_by_sequences = {{1, 0.5}, {3, 0.7}};
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(decode_of(2, 30)).duration_s, 0.6);
  scheduler::Iteration both = decode_of(3, 30);
  both.prefills = {{.request = 9, .tokens = 5, .context_tokens = 0}};
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(both).duration_s, 0.5 + 0.7);
  cluster.gpu.prefill_s_by_tokens.clear();
  // Prompts by the roofline: 2 x 100 x 5, and 4 x 2 x 32 for each of 5 x 2.5 pairs.
  EXPECT_DOUBLE_EQ(StepCost(cluster, 0).of(both).duration_s, 0.7 + (1000 + 256 * 12.5) / 1000);
}

}  // namespace
}  // namespace nearkv::traces::test

// The simulator against queues whose means are known.
#include <functional>
#include <memory>
#include <string>

#include "confidence.hpp"
#include "link.hpp"
#include "simulation.hpp"
#include "support/seed.hpp"
#include "workloads/draw.hpp"

namespace nearkv::traces::test {
namespace {

constexpr std::size_t kTransfers = 2'000'000;

/// Waits of Poisson arrivals at a link that moves a byte a second, `load` bytes arriving a second.
std::vector<double> link_waits(double load, const std::function<double(Draw&)>& draw_bytes,
                               double mean_bytes) {
  Link link(1, 0);
  Draw draw(nearkv::test::test_seed());
  Seconds now_s = 0;
  std::vector<double> waits;
  for (std::size_t i = 0; i < kTransfers; ++i) {
    now_s += draw.exponential(mean_bytes / load);
    const double bytes = draw_bytes(draw);
    waits.push_back(link.transfer(now_s, bytes) - now_s - bytes);
  }
  return waits;
}

/// Pollaczek and Khinchine's mean wait in M/G/1, first come first served.
double pollaczek_khinchine(double arrivals_per_s, double mean, double mean_square) {
  return arrivals_per_s * mean_square / (2 * (1 - arrivals_per_s * mean));
}

TEST(Link, MM1) {
  for (const double load : {0.3, 0.7, 0.9}) {
    const auto waits = link_waits(load, [](Draw& draw) { return draw.exponential(1); }, 1);
    expect_agrees(waits, load / (1 - load));
  }
}

TEST(Link, MD1) {
  for (const double load : {0.3, 0.7, 0.9}) {
    expect_agrees(link_waits(load, [](Draw&) { return 1.0; }, 1), load / (2 * (1 - load)));
  }
}

TEST(Link, MG1OfTwoSizes) {
  // One in ten moves 10 bytes, the others 1: mean 1.9, mean square 10.9.
  const auto two_sizes = [](Draw& draw) { return draw.uniform() < 0.1 ? 10.0 : 1.0; };
  expect_agrees(link_waits(0.7, two_sizes, 1.9), pollaczek_khinchine(0.7 / 1.9, 1.9, 10.9));
}

/// A replica whose steps take a millisecond each, or a millisecond for each token.
Cluster plain_cluster(std::uint64_t most_running, bool by_token) {
  Cluster cluster;
  cluster.model = {.parameters = 1, .bytes_per_parameter = 0.01, .kv_bytes_per_token = 1};
  cluster.gpu = {.flops = by_token ? 2000.0 : 1e18,
                 .hbm_bytes_per_s = 1e18,
                 .hbm_bytes = 1e9,
                 .flops_share = 1,
                 .hbm_share = 1,
                 .step_overhead_s = by_token ? 0 : 1e-3};
  // Attention is left out: it would make later tokens dearer.
  cluster.model.layers = 1e-9;
  cluster.engine = {.token_budget = 100'000, .most_running = most_running};
  return cluster;
}

struct Outcome {
  std::vector<double> waits;
  std::vector<double> latencies;
  double mean_service_s = 0;
  double mean_square_s = 0;
  double arrivals_per_s = 0;
};

/// Requests of one token of prompt and `spread` tokens of output, of which each takes 1 ms when
/// alone. `most` at a time; the load that is asked for is that of `servers` of them.
Outcome simulate(const Cluster& cluster, Spread spread, double mean_tokens, double load,
                 double servers, std::uint64_t requests = 300'000) {
  WorkloadConfig config{.seed = nearkv::test::test_seed(),
                        .requests = requests,
                        .rate_per_s = load * servers / (mean_tokens * 1e-3),
                        .prompt_tokens = 1,
                        .output_tokens = mean_tokens,
                        .output_spread = spread,
                        .block_tokens = cluster.engine.block_tokens};
  std::string reason;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Simulation> simulation;
  EXPECT_EQ(make_workload(config, &workload, &reason), Status::kOk) << reason;
  EXPECT_EQ(Simulation::open(cluster, 0, workload.get(), &simulation, &reason), Status::kOk)
      << reason;
  EXPECT_EQ(simulation->run(&reason), Status::kOk) << reason;
  Outcome outcome;
  for (const Served& served : simulation->served()) {
    const double service_s = served.output_tokens * 1e-3;
    const double count = static_cast<double>(simulation->served().size());
    outcome.mean_service_s += service_s / count;
    outcome.mean_square_s += service_s * service_s / count;
    outcome.latencies.push_back(served.ended_s - served.arrived_s);
    outcome.waits.push_back(outcome.latencies.back() - service_s);
  }
  outcome.arrivals_per_s = config.rate_per_s;
  return outcome;
}

TEST(Engine, OneAtATimeIsMD1) {
  const Outcome one = simulate(plain_cluster(1, false), Spread::kConstant, 50, 0.8, 1);
  expect_agrees(one.waits, 0.8 * 0.05 / (2 * (1 - 0.8)));
}

TEST(Engine, OneAtATimeIsMM1) {
  const Outcome one = simulate(plain_cluster(1, false), Spread::kExponential, 50, 0.7, 1);
  expect_agrees(one.waits, 0.7 * 0.05 / (1 - 0.7), /*bias=*/0.01);
}

TEST(Engine, OneAtATimeIsMG1) {
  const Outcome one = simulate(plain_cluster(1, false), Spread::kLognormal, 25, 0.6, 1, 1'000'000);
  // The moments are those of what was drawn: outputs are whole tokens.
  expect_agrees(one.waits,
                pollaczek_khinchine(one.arrivals_per_s, one.mean_service_s, one.mean_square_s));
}

TEST(Engine, StepsOfFixedTimeAreMMcByErlang) {
  constexpr double kServers = 4;
  const Outcome four =
      simulate(plain_cluster(4, false), Spread::kExponential, 50, 0.7, kServers, 800'000);
  const double offered = 0.7 * kServers;
  double sum = 0;
  double term = 1;
  for (int i = 0; i < 4; ++i) {
    sum += term;
    term *= offered / (i + 1);
  }
  const double waiting = term / (1 - 0.7) / (sum + term / (1 - 0.7));
  // A request joins at the end of a step: half a millisecond, of 50.
  expect_agrees(four.waits, waiting * 0.05 / (kServers * (1 - 0.7)) + 0.5e-3, /*bias=*/0.01);
}

TEST(Engine, StepsThatCostByTokenShareTheProcessor) {
  for (const Spread spread : {Spread::kConstant, Spread::kExponential}) {
    const Outcome many = simulate(plain_cluster(10'000, true), spread, 200, 0.6, 1, 100'000);
    // M/G/1 processor sharing, whatever the distribution; its quantum is a token of 200.
    expect_agrees(many.latencies, many.mean_service_s / (1 - 0.6), /*bias=*/0.02);
  }
}

}  // namespace
}  // namespace nearkv::traces::test

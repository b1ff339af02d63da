// nearkv_plan: how many GPUs should prefill and how many decode, at which tensor parallelism.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "case_file.hpp"
#include "copy/rounds.hpp"
#include "planner.hpp"
#include "report_json.hpp"

namespace nearkv::traces {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    R"(Chooses how a cluster's GPUs are split: replicas that prefill and decode, or
some that prefill and others that decode; their tensor parallelism; the tokens
of a step. Each layout is simulated at rising rates until fewer than the share of
requests get their tokens as promised (DistServe's goodput); the best has most of
it a GPU.

CLUSTER is a TOML file with the model, the GPUs, the promise and the [workload],
such as bench/traces/clusters/plan.toml. Its number of GPUs and of replicas is
what is searched; options override the rest. KV goes from prefill to decode over
its tiers that are shared; without one, only layouts whose replicas do both are
tried.)";

constexpr const char* kFooter =
    R"(examples:
  ./nearkv plan bench/traces/clusters/plan.toml
  ./nearkv plan bench/traces/clusters/plan.toml --gpus 16 --ttft 0.2 --tpot 0.05 --share 0.99
  ./nearkv plan bench/traces/clusters/pool.toml --trace conversation.jsonl --requests 2000

exit status: 0 there is a plan; 1 a file cannot be written; 2 wrong usage, wrong
input, or no layout that serves as promised, and why.)";

struct Options {
  std::string cluster;
  std::vector<std::string> traces;
  std::string baselines;
  std::string policy;
  std::uint64_t requests = 0;
  double ttft_s = 0;
  double tpot_s = 0;
  std::size_t rows = 10;
  std::string json;
  PlanOptions plan;
};

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "nearkv plan: %s\n", message.c_str());
  return status;
}

void print_row(const Planned& one) {
  std::printf("%-52s %5.0f %10.3f %10.3f %9.4f %9.4f\n", one.layout.name().c_str(),
              one.layout.total_gpus(), one.goodput_per_s, one.per_gpu(), one.ttft_s, one.tpot_s);
}

const Planned* best(const std::vector<Planned>& planned, bool is_apart) {
  const auto found = std::ranges::find_if(planned, [is_apart](const Planned& one) {
    return one.layout.is_apart() == is_apart && one.goodput_per_s > 0;
  });
  return found == planned.end() ? nullptr : &*found;
}

void print(const Options& options, const Cluster& cluster, const std::vector<Planned>& planned) {
  const double share = 100 * options.plan.share;
  std::printf("%s: TTFT %g s and TPOT %g s for %g %% of requests, %s\n", cluster.name.c_str(),
              cluster.promise.ttft_s, cluster.promise.tpot_s, share, cluster.engine.policy.c_str());
  std::printf("%-52s %5s %10s %10s %9s %9s\n", "layout", "GPUs", "requests/s", "each GPU", "TTFT s",
              "TPOT s");
  std::size_t left = options.rows;
  for (const Planned& one : planned) {
    if (left-- == 0 || one.goodput_per_s == 0) break;
    print_row(one);
  }
  const auto count = [&](const auto& is) { return std::ranges::count_if(planned, is); };
  const auto refused = count([](const Planned& one) { return !one.refused.empty(); });
  const auto broken =
      count([](const Planned& one) { return one.refused.empty() && one.goodput_per_s == 0; });
  std::printf("%zu layouts tried: %td do not fit, %td break the promise at any rate\n",
              planned.size(), refused, broken);
  const Planned* const together = best(planned, false);
  const Planned* const apart = best(planned, true);
  if (together != nullptr) {
    std::printf("best of replicas that do both:\n");
    print_row(*together);
  }
  if (apart != nullptr) {
    std::printf("best with prefill apart:\n");
    print_row(*apart);
  }
  const Planned& first = planned.front();
  const double copies = std::floor(options.plan.limits.most_gpus / first.layout.total_gpus());
  std::printf("plan: %.0f x (%s), %.3f requests/s on %.0f of %.0f GPUs\n", copies,
              first.layout.name().c_str(), copies * first.goodput_per_s,
              copies * first.layout.total_gpus(), options.plan.limits.most_gpus);
  constexpr double kLong = 10;
  if (first.arriving_s < kLong * (cluster.promise.ttft_s + first.report.latency_s.p50)) {
    std::printf(
        "note: at this rate all requests come within %.1f s, too short for queues to grow: "
        "more --requests would be less kind\n",
        first.arriving_s);
  }
}

Json to_json(const Planned& one) {
  const Layout& layout = one.layout;
  Json all{{"layout", layout.name()},
           {"prefill_replicas", layout.prefill_replicas},
           {"prefill_gpus", layout.prefill_gpus},
           {"replicas", layout.replicas},
           {"gpus", layout.gpus},
           {"token_budget", layout.token_budget},
           {"total_gpus", layout.total_gpus()},
           {"goodput_per_s", one.goodput_per_s},
           {"goodput_per_s_and_gpu", one.per_gpu()}};
  if (!one.refused.empty()) {
    all["refused"] = one.refused;
    return all;
  }
  all["kept_ttft_s"] = one.ttft_s;
  all["kept_tpot_s"] = one.tpot_s;
  all["arriving_s"] = one.arriving_s;
  all["report"] = to_json(one.report);
  return all;
}

Json to_json(const Options& options, const Cluster& cluster, const std::vector<Planned>& planned) {
  Json layouts = Json::array();
  for (const Planned& one : planned) layouts.push_back(to_json(one));
  const auto json_of = [](const Planned* one) { return one == nullptr ? Json() : to_json(*one); };
  return {{"cluster", cluster.name},
          {"policy", cluster.engine.policy},
          {"promise", {{"ttft_s", cluster.promise.ttft_s}, {"tpot_s", cluster.promise.tpot_s}}},
          {"share", options.plan.share},
          {"most_gpus", options.plan.limits.most_gpus},
          {"best", to_json(planned.front())},
          {"best_together", json_of(best(planned, false))},
          {"best_apart", json_of(best(planned, true))},
          {"layouts", layouts}};
}

int run(Options options) {
  Cluster cluster;
  WorkloadConfig workload;
  std::string reason;
  if (read_case(options.cluster, options.baselines, &cluster, &workload,
                &options.plan.device_s_per_token, &reason) != Status::kOk) {
    return fail(2, reason);
  }
  workload.traces = options.traces;
  if (options.requests > 0) workload.requests = options.requests;
  if (!options.policy.empty()) cluster.engine.policy = options.policy;
  if (options.ttft_s > 0) cluster.promise.ttft_s = options.ttft_s;
  if (options.tpot_s > 0) cluster.promise.tpot_s = options.tpot_s;
  options.plan.limits.may_split = std::ranges::any_of(cluster.tiers, &TierConfig::is_shared);
  if (!options.plan.limits.may_split) {
    std::fprintf(stderr,
                 "nearkv plan: %s has no [[tiers]] that is_shared, over which KV could go "
                 "to who decodes: only replicas that do both are tried\n",
                 options.cluster.c_str());
  }
  const bool is_watched = isatty(STDERR_FILENO) != 0;
  const auto progress = [is_watched](std::size_t done, std::size_t all) {
    if (is_watched)
      std::fprintf(stderr, "\r%zu of %zu layouts%s", done, all, done == all ? "\n" : "");
  };
  std::vector<Planned> planned;
  if (plan(cluster, workload, options.plan, progress, &planned, &reason) != Status::kOk) {
    return fail(2, reason);
  }
  print(options, cluster, planned);
  if (options.json.empty()) return 0;
  return bench::save_results(options.json, to_json(options, cluster, planned));
}

int parse_and_run(int argc, char** argv) {
  Options options;
  options.plan.threads = std::max(std::thread::hardware_concurrency(), 1U);
  LayoutLimits& limits = options.plan.limits;
  CLI::App app(kDescription, "./nearkv plan");
  app.footer(kFooter);
  app.add_option("CLUSTER", options.cluster, "a TOML file")->required();
  app.add_option("--gpus", limits.most_gpus, "all GPUs of a layout, at most (default: 8)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--tensor-parallel", limits.degrees, "degrees to try (default: 1,2,4,8)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--token-budget", limits.token_budgets,
                 "tokens of a step to try (default: engine.token_budget)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--ttft", options.ttft_s, "seconds, in place of promise.ttft_s")
      ->check(CLI::PositiveNumber);
  app.add_option("--tpot", options.tpot_s, "seconds, in place of promise.tpot_s")
      ->check(CLI::PositiveNumber);
  app.add_option("--share", options.plan.share,
                 "of requests, that the promise is kept for; 0.99: by P99 (default: 0.9)");
  app.add_option("--trace", options.traces, "files of requests, for a workload of kind trace");
  app.add_option("--requests", options.requests, "in place of workload.requests; the last counts")
      ->take_last();
  app.add_option("--policy", options.policy, "in place of engine.policy");
  app.add_option("--baselines", options.baselines, "cycles of the RTL's commands, JSON");
  app.add_option("--rows", options.rows, "layouts to print (default: 10)");
  app.add_option("-j,--jobs", options.plan.threads, "layouts to simulate at once")
      ->envname("NEARKV_JOBS")
      ->check(CLI::Range(1, 1024));
  app.add_option("--json", options.json, "write all layouts to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(std::move(options));
}

}  // namespace
}  // namespace nearkv::traces

int main(int argc, char** argv) {
  try {
    return nearkv::traces::parse_and_run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "nearkv plan: %s\n", failure.what());
    return 1;
  }
}

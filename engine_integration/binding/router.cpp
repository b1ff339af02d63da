// The router: which worker a prompt goes to. The package nearkv.router names workers, reads events
// and hashes tokens; here workers are numbers and blocks are hashes.
#include "router.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "error.hpp"
#include "hashes.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using router::CostModel;
using router::Decision;
using router::DynamoWeights;
using router::IndexCounters;
using router::Load;
using router::MooncakeThresholds;
using router::Router;
using router::RouterOptions;
using router::Ticket;
using router::Tier;
using router::TierCost;
using router::TierMask;
using router::WorkerId;

constexpr std::string_view kNoSuchWorker =
    "the router has no such worker: add it with add_worker before its events and requests";
constexpr std::string_view kFull =
    "the index is full, and refused some blocks: give the router a greater index_limit_bytes";

std::unique_ptr<Router> make_router(const std::string& policy, const CostModel& cost,
                                    const DynamoWeights& dynamo, const MooncakeThresholds& mooncake,
                                    std::size_t index_limit_bytes, std::uint64_t seed) {
  RouterOptions options;
  options.policy = policy;
  options.policy_options = {cost, dynamo, mooncake, seed};
  options.index_limit_bytes = index_limit_bytes;
  std::unique_ptr<Router> router;
  const Status status = Router::create(options, &router);
  if (status == Status::kNotFound) {
    std::string names;
    for (const std::string_view name : router::kPolicyNames) names.append(" ").append(name);
    check(status, "there is no policy '" + policy + "'; there are:" + names);
  }
  check(status, status == Status::kBadArgument
                    ? "an option of the router is out of its range: rates and sizes are positive, "
                      "weights 0 to 1, thresholds at least 1, index_limit_bytes at least 1 MiB"
                    : std::string());
  return router;
}

WorkerId add_worker(Router& router, const std::string& name, bool is_pool, double rate) {
  WorkerId id = 0;
  const Status status =
      router.add_worker(name, {.is_pool = is_pool, .prefill_tokens_per_s = rate}, &id);
  std::string text;
  if (status == Status::kExists) text = "there is a worker '" + name + "'; remove_worker it first";
  if (status == Status::kBadArgument) text = "a worker has a name and a rate that is not negative";
  check(status, text);
  return id;
}

/// One event of a worker, by the method of Router that takes it.
template <typename Apply>
void apply(WorkerId worker, Apply apply) {
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = apply(worker);
  }
  if (status == Status::kNotFound) check(status, std::string(kNoSuchWorker));
  if (status == Status::kPoolFull) check(status, std::string(kFull));
  check(status);
}

Decision route(const Router& router, nb::handle hashes, std::uint32_t tokens,
               const std::vector<WorkerId>& among) {
  const Hashes lent(hashes);
  Decision decision;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = router.route({lent.span(), tokens, among}, &decision);
  }
  std::string text;
  if (status == Status::kNotFound) {
    text = among.empty() ? "the router has no workers: add_worker one"
                         : "none of the named workers is there: add_worker them, or name others";
  }
  if (status == Status::kBadArgument) {
    text =
        "the prompt has fewer tokens than its blocks: give hashes of whole blocks, of the cost "
        "model's block_tokens";
  }
  if (status == Status::kBusy) {
    text = "no worker would be in time for ttft_slo_s: send the request again later (429)";
  }
  check(status, text);
  return decision;
}

std::vector<std::uint32_t> match(const Router& router, nb::handle hashes) {
  const Hashes lent(hashes);
  router::PrefixMatch match;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = router.match(lent.span(), &match);
  }
  check(status);
  std::vector<std::uint32_t> blocks;
  blocks.reserve(match.prefixes().size());
  for (const router::WorkerPrefix& prefix : match.prefixes()) blocks.push_back(prefix.total());
  return blocks;
}

Ticket start(Router& router, const Decision& decision) {
  Ticket ticket;
  const Status status = router.start(decision, &ticket);
  check(status, status == Status::kNotFound ? "the worker has gone meanwhile: route again" : "");
  return ticket;
}

void bind_options(nb::module_& module) {
  nb::class_<TierCost>(module, "TierCost", "One tier, seen from the GPU that needs its blocks.")
      .def(nb::init<double, double, double>(), "weight"_a, "bytes_per_s"_a, "latency_s"_a)
      .def_rw("weight", &TierCost::weight, "Of a block there, of one on the GPU: 0 to 1.")
      .def_rw("bytes_per_s", &TierCost::bytes_per_s, "0: need not be loaded.")
      .def_rw("latency_s", &TierCost::latency_s);
  nb::class_<CostModel>(module, "CostModel", "What waiting, loading and computing cost a worker.")
      .def(nb::init<>())
      .def_rw("block_tokens", &CostModel::block_tokens)
      .def_rw("block_bytes", &CostModel::block_bytes)
      .def_rw("prefill_tokens_per_s", &CostModel::prefill_tokens_per_s)
      .def_rw("peer_bytes_per_s", &CostModel::peer_bytes_per_s, "From worker to worker.")
      .def_rw("tiers", &CostModel::tiers, "GPU, DRAM, CXL, shared; assign a whole list.");
  using Weights = DynamoWeights;
  nb::class_<Weights>(module, "DynamoWeights", "Dynamo's, by its names and with its defaults.")
      .def(nb::init<>())
      .def_rw("overlap_score_credit", &Weights::overlap_score_credit)
      .def_rw("overlap_score_credit_decay", &Weights::overlap_score_credit_decay)
      .def_rw("prefill_load_scale", &Weights::prefill_load_scale)
      .def_rw("host_cache_hit_weight", &Weights::host_cache_hit_weight)
      .def_rw("disk_cache_hit_weight", &Weights::disk_cache_hit_weight)
      .def_rw("shared_cache_multiplier", &Weights::shared_cache_multiplier)
      .def_rw("decode_active_request_weight", &Weights::decode_active_request_weight)
      .def_rw("temperature", &Weights::temperature);
  using Thresholds = MooncakeThresholds;
  nb::class_<Thresholds>(module, "MooncakeThresholds", "By the names in Mooncake's paper.")
      .def(nb::init<>())
      .def_rw("kvcache_balancing_threshold", &Thresholds::kvcache_balancing_threshold)
      .def_rw("ttft_slo_s", &Thresholds::ttft_slo_s);
}

void bind_records(nb::module_& module) {
  nb::enum_<Tier>(module, "Tier", "Where a block lies, fastest first.")
      .value("GPU", Tier::kGpu)
      .value("DRAM", Tier::kDram)
      .value("CXL", Tier::kCxl)
      .value("SHARED", Tier::kShared, "On NVMe, on another machine, or in a pool.");
  nb::class_<Load>(module, "WorkerLoad", "Of requests that were started and have not ended.")
      .def_ro("requests", &Load::requests)
      .def_ro("prefill_tokens", &Load::prefill_tokens)
      .def_ro("blocks", &Load::blocks);
  nb::class_<Decision>(module, "RouteDecision", "Where a request goes, and why.")
      .def_ro("worker", &Decision::worker)
      .def_ro("cost", &Decision::cost, "In the policy's unit: seconds, blocks or requests.")
      .def_ro("reason", &Decision::reason)
      .def_prop_ro(
          "prefix", [](const Decision& decision) { return decision.prefix.blocks; },
          "Blocks of the prompt that the worker has on GPU, in DRAM, CXL, shared.")
      .def_ro("load", &Decision::load, "What the worker had to do.")
      .def_ro("tokens", &Decision::tokens)
      .def_ro("blocks", &Decision::blocks)
      .def_ro("uncached_tokens", &Decision::uncached_tokens, "To be computed.")
      .def_ro("copy_from", &Decision::copy_from, "Whose longer prefix is to be copied first.")
      .def_ro("longest_worker", &Decision::longest_worker, "Who has most of the prompt.")
      .def_ro("longest_blocks", &Decision::longest_blocks)
      .def_ro("candidates", &Decision::candidates);
  nb::class_<Ticket>(module, "RouteTicket", "One request's part in a worker's load.")
      .def_ro("worker", &Ticket::worker)
      .def_ro("is_open", &Ticket::is_open);
  nb::class_<IndexCounters>(module, "RouterCounters", "What the index was told.")
      .def_ro("stored", &IndexCounters::stored)
      .def_ro("removed", &IndexCounters::removed)
      .def_ro("unknown_removals", &IndexCounters::unknown_removals)
      .def_ro("refused", &IndexCounters::refused, "Blocks for which the limit left no memory.");
}

}  // namespace

void bind_router(nb::module_& module) {
  bind_options(module);
  bind_records(module);
  nb::class_<Router>(module, "Router", "Workers by number, blocks by hash; see nearkv.router.")
      .def(nb::new_(&make_router), "policy"_a = "least_ttft", "cost"_a = CostModel(),
           "dynamo"_a = DynamoWeights(), "mooncake"_a = MooncakeThresholds(),
           "index_limit_bytes"_a = std::size_t{1} << 30, "seed"_a = 1)
      .def("add_worker", &add_worker, "name"_a, "is_pool"_a = false, "prefill_tokens_per_s"_a = 0.0)
      .def(
          "remove_worker",
          [](Router& router, const std::string& name) {
            const Status status = router.remove_worker(name);
            check(status, status == Status::kNotFound ? "there is no worker '" + name + "'"
                                                      : std::string());
          },
          "name"_a)
      .def(
          "store",
          [](Router& router, WorkerId worker, Tier tier, nb::handle hashes) {
            const Hashes lent(hashes);
            apply(worker, [&](WorkerId id) { return router.store(id, tier, lent.span()); });
          },
          "worker"_a, "tier"_a, "hashes"_a)
      .def(
          "remove",
          [](Router& router, WorkerId worker, Tier tier, nb::handle hashes) {
            const Hashes lent(hashes);
            apply(worker, [&](WorkerId id) { return router.remove(id, tier, lent.span()); });
          },
          "worker"_a, "tier"_a, "hashes"_a)
      .def(
          "clear",
          [](Router& router, WorkerId worker) {
            apply(worker, [&](WorkerId id) { return router.clear(id); });
          },
          "worker"_a)
      .def("route", &route, "hashes"_a, "tokens"_a, "among"_a = std::vector<WorkerId>())
      .def("match", &match, "hashes"_a, "How many leading blocks each worker has, by number.")
      .def("start", &start, "decision"_a)
      .def(
          "first_token", [](Router& router, Ticket& ticket) { router.first_token(&ticket); },
          "ticket"_a)
      .def(
          "finish", [](Router& router, Ticket& ticket) { router.finish(&ticket); }, "ticket"_a)
      .def(
          "name", [](const Router& router, WorkerId id) { return router.workers().name(id); },
          "worker"_a)
      .def(
          "load",
          [](const Router& router, WorkerId id) {
            if (id >= router::kMaxWorkers) check(Status::kNotFound, std::string(kNoSuchWorker));
            return router.workers().load(id);
          },
          "worker"_a)
      .def_prop_ro("blocks", [](const Router& router) { return router.index().blocks(); })
      .def_prop_ro("memory_bytes",
                   [](const Router& router) { return router.index().memory_bytes(); })
      .def_prop_ro("limit_bytes", [](const Router& router) { return router.index().limit_bytes(); })
      .def_prop_ro("counters", [](const Router& router) { return router.index().counters(); });
}

}  // namespace nearkv::python

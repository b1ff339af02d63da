#include "rates.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>

#include "event_stream.hpp"
#include "map_index.hpp"
#include "router.hpp"

namespace nearkv::bench {
namespace {

using router::Decision;
using router::PrefixMatch;
using router::Router;
using router::RouterOptions;
using router::WorkerId;
using router::WorkerSet;

constexpr const char* kPeer = "unordered_map, shared_mutex";

void expect(Status status, const char* what) {
  if (status == Status::kOk) return;
  throw std::runtime_error(std::string(what) + ": " + std::string(message(status)));
}

std::unique_ptr<Router> make_router(std::string_view policy, const FleetOptions& fleet) {
  RouterOptions options;
  options.policy = policy;
  options.index_limit_bytes = std::max<std::size_t>(std::size_t{1} << 30, fleet.blocks * 40);
  std::unique_ptr<Router> router;
  expect(Router::create(options, &router), "a router");
  for (std::uint32_t i = 0; i < fleet.workers; ++i) {
    WorkerId id = 0;
    expect(router->add_worker("worker" + std::to_string(i), {}, &id), "a worker");
  }
  return router;
}

class RouterBench {
 public:
  RouterBench(const RouterBenchOptions& options, Report* report)
      : options_(options),
        report_(*report),
        fleet_(make_fleet(options.fleet)),
        router_(make_router("least_ttft", options.fleet)) {}

  void run() {
    fill();
    lookups();
    for (const std::string_view policy : router::kPolicyNames) routing(policy);
    clear();
  }

 private:
  void fill() {
    std::size_t events = 0;
    for (const CachedChain& chain : fleet_) events += chain.hashes.size();
    const double ours = cpu_seconds([&] {
      for (const CachedChain& chain : fleet_) {
        expect(router_->store(chain.worker, chain.tier, chain.hashes), "an event");
      }
    });
    const std::size_t before = heap_bytes();
    const double peers = cpu_seconds([&] {
      for (const CachedChain& chain : fleet_) {
        peer_.store(chain.worker, chain.tier, chain.hashes);
      }
    });
    const auto blocks = static_cast<double>(router_->index().blocks());
    const auto told = static_cast<double>(events);
    report_.add({"router/blocks", "blocks", blocks, "", 0});
    report_.add({"router/events", "blocks/s", told / ours, kPeer, told / peers});
    report_.add({"router/memory", "B/block",
                 static_cast<double>(router_->index().memory_bytes()) / blocks, kPeer,
                 static_cast<double>(heap_bytes() - before) / blocks});
  }

  /// Blocks a second of one core's time, while events come in.
  template <typename Match>
  double lookup_rate(std::uint64_t seed, Match match) {
    std::mt19937_64 random(seed);
    std::size_t looked_up = 0;
    const double took = cpu_seconds([&] {
      for (std::size_t i = 0; i < options_.requests; ++i) {
        looked_up += match(fleet_[random() % fleet_.size()].hashes);
      }
    });
    return static_cast<double>(looked_up) / took;
  }

  void lookups() {
    const WorkerSet no_pools;
    PrefixMatch match;
    const std::size_t workers = options_.fleet.workers;
    std::vector<double> ours;
    std::vector<double> peers;
    std::vector<double> our_events;
    std::vector<double> peer_events;
    for (unsigned i = 0; i < options_.repeats; ++i) {
      {
        const EventStream events(fleet_, options_.events_per_s, i, apply_to_router());
        ours.push_back(lookup_rate(options_.fleet.seed + i, [&](const Chain& chain) {
          return router_->index().match(chain, no_pools, workers, &match);
        }));
        our_events.push_back(events.rate());
      }
      const EventStream events(
          fleet_, options_.events_per_s, i,
          [this](const CachedChain& chain, std::span<const std::uint64_t> hashes, bool is_stored) {
            is_stored ? peer_.store(chain.worker, chain.tier, hashes)
                      : peer_.remove(chain.worker, chain.tier, hashes);
          });
      peers.push_back(lookup_rate(options_.fleet.seed + i, [&](const Chain& chain) {
        return peer_.match(chain, workers, &match);
      }));
      peer_events.push_back(events.rate());
    }
    report_.add({"router/lookups", "blocks/s", median(ours), kPeer, median(peers)});
    report_.add(
        {"router/events_beside", "blocks/s", median(our_events), kPeer, median(peer_events)});
  }

  /// Whole decisions, each started and ended, by the wall's clock and the thread's; the wall's also
  /// counts what else this machine does.
  void routing(std::string_view policy) {
    const std::unique_ptr<Router> other =
        policy == "least_ttft" ? nullptr : make_router(policy, options_.fleet);
    if (other) {
      for (const CachedChain& chain : fleet_) {
        expect(other->store(chain.worker, chain.tier, chain.hashes), "an event");
      }
    }
    Router* const router = other ? other.get() : router_.get();
    const EventStream events(fleet_, options_.events_per_s, 7, apply_to(router));
    std::mt19937_64 random(options_.fleet.seed);
    Latencies wall;
    Latencies core;
    for (std::size_t i = 0; i < options_.repeats * options_.requests; ++i) {
      const Chain& chain = fleet_[random() % fleet_.size()].hashes;
      const auto tokens = static_cast<std::uint32_t>(chain.size() * 16 + 5);
      const double before = core_seconds();
      wall.time([&] {
        Decision decision;
        router::Ticket ticket;
        expect(router->route({chain, tokens, {}}, &decision), "a decision");
        expect(router->start(decision, &ticket), "a start");
        router->finish(&ticket);
        keep(decision);
      });
      core.add(1e9 * (core_seconds() - before));
    }
    const std::string name = "router/route/" + std::string(policy);
    for (const char* percent : {"50", "99", "99.9"}) {
      const double at = std::strtod(percent, nullptr);
      report_.add({name + "/p" + percent, "us", wall.percentile(at) / 1000, "of the core's time",
                   core.percentile(at) / 1000});
    }
  }

  void clear() {
    const double took = cpu_seconds([&] { expect(router_->clear(0), "a clear"); });
    report_.add({"router/clear_a_worker", "ms", 1000 * took, "", 0});
  }

  [[nodiscard]] static EventStream::Apply apply_to(Router* router) {
    return
        [router](const CachedChain& chain, std::span<const std::uint64_t> hashes, bool is_stored) {
          expect(is_stored ? router->store(chain.worker, chain.tier, hashes)
                           : router->remove(chain.worker, chain.tier, hashes),
                 "an event");
        };
  }
  [[nodiscard]] EventStream::Apply apply_to_router() { return apply_to(router_.get()); }

  const RouterBenchOptions& options_;
  Report& report_;
  std::vector<CachedChain> fleet_;
  std::unique_ptr<Router> router_;
  MapIndex peer_;
};

}  // namespace

void bench_router(const RouterBenchOptions& options, Report* report) {
  RouterBench(options, report).run();
}

}  // namespace nearkv::bench

// Which worker a request goes to, from what workers have and do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nearkv/status.hpp"
#include "policy.hpp"
#include "prefix_index.hpp"
#include "worker_table.hpp"

namespace nearkv::router {

struct RouterOptions {
  std::string policy = "least_ttft";  ///< One of kPolicyNames.
  PolicyOptions policy_options;
  std::size_t index_limit_bytes = std::size_t{1} << 30;  ///< At least kLeastIndexBytes.
};
inline constexpr std::size_t kLeastIndexBytes = std::size_t{1} << 20;

/// A prompt, as its blocks' chained hashes.
struct RouteRequest {
  std::span<const std::uint64_t> hashes;  ///< Of whole blocks, head first.
  std::uint32_t tokens = 0;               ///< At least those of the blocks.
  std::span<const WorkerId> among;        ///< Only these, if any are named.
};

/// Where a request goes, and why.
struct Decision {
  WorkerId worker = 0;
  double cost = 0;          ///< In the policy's unit: seconds, blocks or requests.
  std::string_view reason;  ///< Static.
  WorkerPrefix prefix;      ///< What the worker has of the prompt.
  Load load;                ///< What it had to do.
  std::uint32_t tokens = 0;
  std::uint32_t blocks = 0;
  std::uint32_t uncached_tokens = 0;
  std::optional<WorkerId> copy_from;  ///< Whose longer prefix is to be copied first.
  WorkerId longest_worker = 0;        ///< Who has most of the prompt,
  std::uint32_t longest_blocks = 0;   ///< and how much.
  std::uint32_t candidates = 0;
};

/// Thread safety: every call from any thread; events of one worker in their order from one thread
/// at a time, and none beside or after its removal. route takes no lock that an event takes.
class Router {
 public:
  /// kNotFound: no such policy. kBadArgument: an option out of its range.
  static Status create(const RouterOptions& options, std::unique_ptr<Router>* router);

  /// See WorkerTable::add.
  Status add_worker(std::string_view name, const WorkerOptions& options, WorkerId* id);
  /// Forgets a worker, its load and its blocks. kNotFound.
  Status remove_worker(std::string_view name);

  /// Events. kNotFound: the worker is not there. Else as PrefixIndex.
  Status store(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes);
  Status remove(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes);
  Status clear(WorkerId worker, TierMask tiers = kAllTiers);

  /// Decides; nothing is counted yet. kNotFound: there is no worker, or none of those named. kBusy:
  /// the policy refuses the request. kBadArgument: fewer tokens than the blocks have.
  Status route(const RouteRequest& request, Decision* decision) const;

  /// How far each worker and pool has a chain, by number; those that are gone have nothing.
  Status match(std::span<const std::uint64_t> hashes, PrefixMatch* match) const;

  /// The request goes to the worker. kNotFound: which is gone by now; route it again.
  Status start(const Decision& decision, Ticket* ticket);
  void first_token(Ticket* ticket) { workers_.first_token(ticket); }
  void finish(Ticket* ticket) { workers_.finish(ticket); }

  [[nodiscard]] const WorkerTable& workers() const { return workers_; }
  [[nodiscard]] const PrefixIndex& index() const { return index_; }
  [[nodiscard]] const CostModel& cost() const { return cost_; }

 private:
  Router(const RouterOptions& options, std::unique_ptr<Policy> policy)
      : cost_(options.policy_options.cost),
        policy_(std::move(policy)),
        index_(options.index_limit_bytes) {}

  CostModel cost_;
  std::unique_ptr<Policy> policy_;
  PrefixIndex index_;
  WorkerTable workers_;
};

}  // namespace nearkv::router

// One engine of a simulated cluster: a scheduler, GPUs, and the tiers that it sees.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent_step_graph.hpp"
#include "cluster.hpp"
#include "link.hpp"
#include "scheduler.hpp"
#include "step_cost.hpp"
#include "tiers.hpp"

namespace nearkv::traces {

/// A load that is under way.
struct LoadUnderWay {
  scheduler::RequestId request = scheduler::kNoRequest;
  std::uint32_t blocks = 0;
  Seconds arrives_s = 0;
};

/// Drives the very scheduler that a live engine uses. Thread safety: one thread at a time.
class Replica {
 public:
  /// kBadArgument with a reason if the cluster's settings do not make a scheduler.
  static Status open(const Cluster& cluster, double device_s_per_token,
                     std::vector<std::shared_ptr<Tier>> tiers,
                     std::unique_ptr<scheduler::AgentStepGraph> graph,
                     std::unique_ptr<Replica>* replica, std::string* reason);

  /// As Scheduler::add().
  Status add(Seconds now_s, scheduler::Request request, std::string* reason);

  /// Begins the next step if none is under way: when it ends, or nothing if there is none to do.
  /// Adds the loads that begin with it to `loads`.
  std::optional<Seconds> begin_step(Seconds now_s, std::vector<LoadUnderWay>* loads);

  /// The step under way has ended.
  void end_step(Seconds now_s, std::vector<scheduler::Ended>* ended);

  /// A load has arrived.
  void loaded(Seconds now_s, scheduler::RequestId request, std::uint32_t blocks);

  /// What the step under way computes.
  [[nodiscard]] const scheduler::Iteration& iteration() const { return iteration_; }

  /// All that it has not ended.
  [[nodiscard]] const scheduler::RequestTable& requests() const { return scheduler_->requests(); }

  /// When all that it has computed is where other replicas find it.
  [[nodiscard]] Seconds written_s() const { return tiers_.written_s(); }

  /// Tokens that its requests have still to compute or to generate.
  [[nodiscard]] std::uint64_t load_tokens() const { return load_tokens_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] double hbm_bytes() const { return hbm_bytes_; }
  [[nodiscard]] double link_bytes() const { return link_bytes_; }
  [[nodiscard]] double device_bytes() const { return device_bytes_; }
  [[nodiscard]] double swapped_bytes() const { return swap_link_.bytes(); }

 private:
  Replica(const Cluster& cluster, double device_s_per_token,
          std::vector<std::shared_ptr<Tier>> tiers,
          std::unique_ptr<scheduler::AgentStepGraph> graph);

  Seconds begin_load(const scheduler::Load& load, Seconds now_s);
  void prefetch(Seconds now_s);

  double block_bytes_;
  StepCost cost_;
  bool has_tiers_;
  TierStack tiers_;
  Link swap_link_;
  std::unique_ptr<scheduler::AgentStepGraph> graph_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  scheduler::Iteration iteration_;
  bool is_stepping_ = false;
  bool may_prefetch_ = false;  ///< Requests have come or ended since the last look.
  std::uint64_t load_tokens_ = 0;
  std::uint64_t steps_ = 0;
  double hbm_bytes_ = 0;
  double link_bytes_ = 0;
  double device_bytes_ = 0;
};

}  // namespace nearkv::traces

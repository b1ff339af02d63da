// Iteration-level scheduling of requests on one engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block_pool.hpp"
#include "iteration.hpp"
#include "lower_tiers.hpp"
#include "nearkv/status.hpp"
#include "policy/eviction_policy.hpp"
#include "request_table.hpp"
#include "scheduling_policy.hpp"

namespace nearkv::scheduler {

/// Decides, step by step, which requests an engine works on (Orca, Yu et al., OSDI 2022). Every
/// step computes one token of each request that decodes, before anything else, and gives what is
/// left of its token budget to prompts, whole or in chunks. It knows no clock: time is an argument,
/// so that an engine and a simulator use the same code.
///
///   add() ... plan() -> the engine computes -> complete() -> plan() ...
///                 └ loads, meanwhile -> loaded()
///
/// Errors leave everything as it was; where memory ends, std::bad_alloc passes through, and the
/// scheduler is of no more use. Thread safety: one thread at a time.
class Scheduler {
 public:
  struct Options {
    std::uint32_t token_budget = 2048;  ///< Tokens that a step computes at most.
    std::uint32_t most_running = 256;   ///< Requests that hold blocks; at most the budget.
    std::uint32_t block_tokens = 16;
    std::uint32_t pool_blocks = 0;  ///< Of the engine's memory; at least 1.
    std::uint32_t swap_blocks = 0;  ///< Of host memory for preempted requests' copies.
    /// What the engine needs to compute a token of a prompt. Where loading takes longer than
    /// computing, it is computed; 0: what can be loaded is loaded.
    Seconds prefill_s_per_token = 0;
  };

  /// `lower` may be none, and must outlive the scheduler. kBadArgument with a `reason`.
  static Status open(const Options& options, std::unique_ptr<SchedulingPolicy> policy,
                     std::unique_ptr<EvictionPolicy> eviction, LowerTiers* lower,
                     std::unique_ptr<Scheduler>* scheduler, std::string* reason);

  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() = default;

  /// A request has arrived. kBadArgument or kPoolFull, with a `reason` that says what to change, if
  /// no step could ever compute it: alone it must fit the pool, and the budget if the policy does
  /// not cut prompts.
  Status add(Seconds now_s, Request request, RequestId* id, std::string* reason);

  /// A request ends before its longest output: the engine saw its last token, or it is cancelled.
  /// While something still writes to its blocks, it stays: a step until complete(), a load until
  /// loaded(). kNotFound if there is no such request.
  Status end(Seconds now_s, RequestId id);

  /// Blocks that a request will soon want are loaded from below into free places of the pool, for
  /// an agent's next step (KVFlow). kPoolFull if there are not as many free, kNotFound if there is
  /// nothing to load, kBusy between plan() and complete().
  Status prefetch(Seconds now_s, std::span<const BlockHash> hashes, std::uint32_t agent);

  /// The next step. kBusy if the last one is not completed. A step without work, swaps or loads
  /// means that nothing can go on until add() or loaded().
  Status plan(Seconds now_s, Iteration* iteration);

  /// The step that was planned is computed; `ended` gets those that have their last token.
  /// kBadArgument if none was planned.
  Status complete(Seconds now_s, std::vector<Ended>* ended);

  /// The first `blocks` of a load have arrived; what is missing will be computed. kNotFound if the
  /// request waits for no load.
  Status loaded(Seconds now_s, RequestId id, std::uint32_t blocks);

  [[nodiscard]] const RequestTable& requests() const { return requests_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  [[nodiscard]] std::span<const RequestId> running() const { return running_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] SchedulingPolicy& policy() { return *policy_; }

 private:
  Scheduler(const Options& options, std::unique_ptr<SchedulingPolicy> policy,
            std::unique_ptr<EvictionPolicy> eviction, LowerTiers* lower);

  [[nodiscard]] View view(Seconds now_s) const;
  [[nodiscard]] std::uint32_t blocks_of(std::uint64_t tokens) const;

  // What plan() does, in this order.
  void plan_decodes(Seconds now_s);
  void plan_prefills();
  void plan_starts(Seconds now_s);
  void drop_preempted();

  // Starting and preempting.
  [[nodiscard]] bool start(Seconds now_s, RequestId id);
  [[nodiscard]] bool take_for(Seconds now_s, RequestId id, std::uint32_t blocks);
  void begin_load(RequestId id, const Residency& found);
  void preempt(Seconds now_s, RequestId id);
  /// It computes again: a block that was not full will be written to, and its copy is worthless.
  void forget_swap(RequestState* state);
  [[nodiscard]] bool grow(Seconds now_s, RequestId id);

  // Progress.
  void compute(Seconds now_s, const Work& work, std::vector<Ended>* ended);
  void publish(RequestId id, Seconds now_s, bool stores);
  void release_blocks(RequestId id);
  void finish(Seconds now_s, RequestId id, std::vector<Ended>* ended);

  Options options_;
  std::unique_ptr<SchedulingPolicy> policy_;
  Traits traits_;
  BlockPool pool_;
  LowerTiers* lower_;
  PoolAndTiers residencies_;
  RequestTable requests_;
  std::vector<RequestId> running_;  ///< In the order of starts; kNoRequest: gone since plan().
  std::size_t waiting_ = 0;
  std::uint32_t swapped_blocks_ = 0;  ///< Of host memory.
  std::vector<Load> prefetches_;      ///< For the next step to begin.
  bool is_planned_ = false;
  bool has_preempted_ = false;  ///< In this step.
  bool has_cancelled_ = false;  ///< Since plan().
  std::uint32_t tokens_left_ = 0;
  Seconds loading_s_ = 0;
  Iteration iteration_;
};

}  // namespace nearkv::scheduler

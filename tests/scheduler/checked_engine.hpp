// An engine whose steps take a fixed time, and which believes nothing that the scheduler says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/policies.hpp"
#include "policy/policies.hpp"
#include "scheduler.hpp"

namespace nearkv::scheduler::test {

/// A tier of blocks that are loaded one after another.
class PlainTier final : public LowerTiers {
 public:
  explicit PlainTier(Seconds per_block_s) : per_block_s_(per_block_s) {}

  [[nodiscard]] Loadable find(std::span<const BlockHash> hashes, Seconds /*now_s*/) override {
    std::uint32_t blocks = 0;
    while (blocks < hashes.size() && held.contains(hashes[blocks])) ++blocks;
    return {.blocks = blocks, .duration_s = blocks * per_block_s_};
  }
  void store(std::span<const BlockHash> hashes, Seconds /*now_s*/) override {
    if (keeps) held.insert(hashes.begin(), hashes.end());
  }

  std::set<BlockHash> held;
  bool keeps = true;

 private:
  Seconds per_block_s_;
};

/// Runs a scheduler step by step and holds each step against the promises of scheduler.hpp.
class CheckedEngine {
 public:
  explicit CheckedEngine(const Scheduler::Options& options,
                         std::unique_ptr<SchedulingPolicy> policy, LowerTiers* lower = nullptr,
                         std::unique_ptr<EvictionPolicy> eviction = make_lru(1)) {
    std::string reason;
    EXPECT_EQ(Scheduler::open(options, std::move(policy), std::move(eviction), lower, &scheduler,
                              &reason),
              Status::kOk)
        << reason;
  }

  RequestId add(Request request) {
    RequestId id = kNoRequest;
    std::string reason;
    EXPECT_EQ(scheduler->add(now_s, std::move(request), &id, &reason), Status::kOk) << reason;
    return id;
  }

  /// One step. False if there was nothing to do but to wait for loads.
  bool step() {
    std::vector<std::pair<RequestId, std::uint32_t>> decoding;
    for (const RequestId id : scheduler->running()) {
      const RequestState& state = scheduler->requests()[id];
      if (state.phase == Phase::kRunning && state.is_decoding()) {
        decoding.emplace_back(id, state.preemptions);
      }
    }
    EXPECT_EQ(scheduler->plan(now_s, &iteration), Status::kOk);
    check_budget();
    check_decodes(decoding);
    check_blocks();
    for (const Load& load : iteration.loads) loads.push_back({load, now_s + load_s(load)});
    if (iteration.has_work()) steps_with_work++;
    now_s += step_s;
    std::vector<Ended> now_ended;
    EXPECT_EQ(scheduler->complete(now_s, &now_ended), Status::kOk);
    for (const Ended& one : now_ended) {
      EXPECT_TRUE(ended.emplace(one.tag, one).second) << "request " << one.tag << " ended twice";
      end_order.push_back(one.tag);
      ended_at_s[one.tag] = now_s;
    }
    deliver();
    check_blocks();
    return iteration.has_work();
  }

  /// Until nothing is left, within `most` steps.
  void run(std::size_t most = 1'000'000) {
    for (std::size_t i = 0; i < most && scheduler->requests().size() > 0; ++i) step();
    EXPECT_EQ(scheduler->requests().size(), 0U) << "not all requests have ended";
    EXPECT_EQ(scheduler->pool().available_blocks(), scheduler->pool().capacity_blocks());
  }

  std::unique_ptr<Scheduler> scheduler;
  Iteration iteration;
  Seconds now_s = 0;
  Seconds step_s = 0.01;
  Seconds block_load_s = 0.001;
  std::map<std::uint64_t, Ended> ended;
  std::map<std::uint64_t, Seconds> ended_at_s;
  std::vector<std::uint64_t> end_order;
  std::size_t steps_with_work = 0;
  std::vector<std::pair<Load, Seconds>> loads;

 private:
  [[nodiscard]] Seconds load_s(const Load& load) const { return load.blocks * block_load_s; }

  void deliver() {
    for (std::size_t i = 0; i < loads.size();) {
      if (loads[i].second > now_s) {
        ++i;
        continue;
      }
      EXPECT_EQ(scheduler->loaded(now_s, loads[i].first.request, loads[i].first.blocks),
                Status::kOk);
      loads.erase(loads.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void check_budget() {
    std::uint64_t tokens = 0;
    std::set<RequestId> seen;
    for (const auto* works : {&iteration.decodes, &iteration.prefills}) {
      for (const Work& work : *works) {
        tokens += work.tokens;
        EXPECT_GT(work.tokens, 0U);
        EXPECT_TRUE(seen.insert(work.request).second) << "twice in one step";
        const RequestState& state = scheduler->requests()[work.request];
        EXPECT_EQ(state.phase, Phase::kRunning);
        EXPECT_EQ(work.context_tokens, state.computed_tokens);
        EXPECT_LE(work.tokens, state.tokens_to_compute());
        EXPECT_GE(std::uint64_t{state.held_blocks()} * scheduler->options().block_tokens,
                  work.context_tokens + work.tokens)
            << "computes tokens for which it has no blocks";
      }
    }
    for (const Work& work : iteration.decodes) EXPECT_EQ(work.tokens, 1U);
    EXPECT_LE(tokens, scheduler->options().token_budget);
    EXPECT_LE(scheduler->running().size(), scheduler->options().most_running);
  }

  /// Who decoded before is in the step, or has been preempted in it.
  void check_decodes(const std::vector<std::pair<RequestId, std::uint32_t>>& decoding) {
    std::set<RequestId> in_step;
    for (const Work& work : iteration.decodes) in_step.insert(work.request);
    for (const auto& [id, preemptions] : decoding) {
      const bool was_preempted = scheduler->requests()[id].preemptions > preemptions;
      EXPECT_TRUE(in_step.contains(id) || was_preempted) << "request " << id << " stalls";
    }
  }

  /// Blocks by what the requests say that they hold.
  void check_blocks() {
    std::uint64_t private_blocks = 0;
    std::set<ObjectId> shared;
    const RequestTable& requests = scheduler->requests();
    for (RequestId id = 0; id < 100'000 && id < most_ids(); ++id) {
      if (!requests.has(id)) continue;
      private_blocks += requests[id].private_blocks;
      shared.insert(requests[id].shared_blocks.begin(), requests[id].shared_blocks.end());
      if (requests[id].phase == Phase::kWaiting) {
        EXPECT_EQ(requests[id].held_blocks(), 0U);
      }
    }
    EXPECT_EQ(scheduler->pool().available_blocks() + private_blocks + shared.size(),
              scheduler->pool().capacity_blocks());
  }

  [[nodiscard]] RequestId most_ids() const {
    RequestId id = 0;
    std::size_t found = 0;
    while (found < scheduler->requests().size()) found += scheduler->requests().has(id++) ? 1 : 0;
    return id;
  }
};

/// Hashes of a prompt's blocks: of `shared` with everyone of the same `prefix`, then its own.
inline std::vector<BlockHash> chain(std::uint64_t prefix, std::uint32_t shared, std::uint64_t own,
                                    std::uint32_t blocks) {
  std::vector<BlockHash> hashes;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    hashes.push_back(i < shared ? prefix << 32 | i : (own + 1) << 48 | prefix << 32 | i);
  }
  return hashes;
}

inline std::unique_ptr<SchedulingPolicy> policy_named(std::string_view name,
                                                      const PolicyOptions& options = {}) {
  std::unique_ptr<SchedulingPolicy> policy;
  std::string reason;
  EXPECT_EQ(make_policy(name, options, &policy, &reason), Status::kOk) << reason;
  return policy;
}

}  // namespace nearkv::scheduler::test

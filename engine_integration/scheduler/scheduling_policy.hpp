// Who runs next, and who makes room: the interface of scheduling policies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "request.hpp"
#include "view.hpp"

namespace nearkv::scheduler {

/// How the scheduler treats all requests of a policy.
struct Traits {
  bool chunks_prefill = true;    ///< A prompt may be computed in several iterations.
  bool reserves_output = false;  ///< A start takes the blocks of the longest output too.
};

/// The order of one scheduler's requests. A policy is told what happens and answers two questions;
/// budgets, blocks, progress and the order of work in an iteration are the scheduler's.
///
/// std::bad_alloc may pass through; nothing else. Thread safety: one thread at a time.
class SchedulingPolicy {
 public:
  SchedulingPolicy() = default;
  SchedulingPolicy(const SchedulingPolicy&) = delete;
  SchedulingPolicy& operator=(const SchedulingPolicy&) = delete;
  virtual ~SchedulingPolicy() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual Traits traits() const { return {}; }

  /// A request waits: it has arrived, or was preempted.
  virtual void on_wait(RequestId id, const View& view) = 0;
  /// A waiting request waits no more: it starts (and `residency` is what it found), or was ended.
  virtual void on_leave(RequestId id, const View& view) = 0;
  virtual void on_start(RequestId /*id*/, const Residency& /*residency*/, const View& /*view*/) {}
  /// All of its known tokens are computed, for the first time since it started.
  virtual void on_prefilled(RequestId /*id*/, const View& /*view*/) {}
  /// An iteration has computed tokens of it; `generated` is 1 if it has a new one.
  virtual void on_tokens(RequestId /*id*/, std::uint32_t /*computed*/, std::uint32_t /*generated*/,
                         const View& /*view*/) {}
  /// A running request stops: it was preempted, and on_wait follows, or it has ended.
  virtual void on_stop(RequestId /*id*/, const View& /*view*/) {}
  /// It is gone for good.
  virtual void on_end(RequestId /*id*/, const View& /*view*/) {}

  /// The waiting request that should start now, or none: then none starts in this iteration.
  [[nodiscard]] virtual std::optional<RequestId> next(const View& view) = 0;

  /// Who makes room for `candidate`, which waits; none: the candidate waits on.
  [[nodiscard]] virtual std::optional<RequestId> makes_room(RequestId candidate, const View& view);

  /// Who stops when requests that run need a block and there is none; of those in Phase::kRunning.
  /// The default, as vLLM's: who arrived last. Must not be none if any runs.
  [[nodiscard]] virtual std::optional<RequestId> gives_way(const View& view);
};

}  // namespace nearkv::scheduler

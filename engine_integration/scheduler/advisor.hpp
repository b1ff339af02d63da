// A policy for an engine that keeps its own steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/status.hpp"
#include "policies/policies.hpp"
#include "request_table.hpp"

namespace nearkv::scheduler {

/// Decides for an engine that has a scheduler of its own, such as vLLM, who is next, who makes room
/// and who gives way. The engine tells what it does with its requests; steps, budgets and blocks
/// are its own, so policies that need steps of theirs (orca) are not for it.
///
///   add() ─► waits ── start() ─► runs ── advance() ... ─► end()
///              │ ▲                │
///   set_aside()┘ └── wait() ◄─────┘ preempted
///
/// Calls out of this order are refused with kBadArgument, unknown requests with kNotFound, and
/// change nothing. std::bad_alloc passes through. Thread safety: one thread at a time.
class Advisor {
 public:
  /// Where the beginning of a waiting request lies.
  using Find = std::function<Residency(RequestId)>;

  /// kBadArgument with a `reason`: see make_policy().
  static Status open(std::string_view policy, const PolicyOptions& options,
                     std::uint32_t block_tokens, std::unique_ptr<Advisor>* advisor,
                     std::string* reason);

  /// A request has arrived, and waits.
  [[nodiscard]] RequestId add(Seconds now_s, Request request);
  /// It waits for something else than its turn: next() does not name it.
  Status set_aside(Seconds now_s, RequestId id);
  /// It waits for its turn again: it was set aside, or it ran and was preempted.
  Status wait(Seconds now_s, RequestId id);
  /// It runs from now on, and found so much of its beginning.
  Status start(Seconds now_s, RequestId id, const Residency& found);
  /// A step has computed tokens of it, and generated some.
  Status advance(Seconds now_s, RequestId id, std::uint32_t computed, std::uint32_t generated);
  /// It is gone.
  Status end(Seconds now_s, RequestId id);

  /// Who should start now; none: nobody, until something changes. Asks `find` meanwhile.
  [[nodiscard]] std::optional<RequestId> next(Seconds now_s, const Find& find);
  /// Who of the running makes room for a waiting candidate; none: it waits on.
  [[nodiscard]] std::optional<RequestId> makes_room(Seconds now_s, RequestId candidate);
  /// All that run, in the order in which they stop when blocks run out. Takes the square of their
  /// number.
  [[nodiscard]] std::vector<RequestId> order_of_giving_way(Seconds now_s);

  [[nodiscard]] const RequestTable& requests() const { return requests_; }

 private:
  /// The engine, as a policy sees it in next().
  class Engine final : public Residencies {
   public:
    [[nodiscard]] Residency of(RequestId id, const View& /*view*/) const override {
      return find != nullptr ? (*find)(id) : Residency();
    }
    const Find* find = nullptr;
  };

  Advisor(std::unique_ptr<SchedulingPolicy> policy, std::uint32_t block_tokens)
      : policy_(std::move(policy)), block_tokens_(block_tokens) {}

  [[nodiscard]] View view(Seconds now_s) const;
  /// A request that is not in `phase`, or not there, is refused.
  [[nodiscard]] Status check(RequestId id, Phase phase) const;
  void stop(Seconds now_s, RequestId id);

  std::unique_ptr<SchedulingPolicy> policy_;
  std::uint32_t block_tokens_;
  Engine engine_;
  RequestTable requests_;
  std::vector<RequestId> running_;
};

}  // namespace nearkv::scheduler

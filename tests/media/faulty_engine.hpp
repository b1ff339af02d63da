// A block engine that fails as the test asks, around one that does not.
#pragma once

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "media/block_engine.hpp"
#include "media/block_file.hpp"
#include "round_up.hpp"

namespace nearkv::test {

/// What becomes of one transfer.
struct Fault {
  enum Kind { kNone, kError, kShort, kHold };
  Kind kind = kNone;
  int system_error = 0;   ///< kError: nothing is transferred.
  std::size_t bytes = 0;  ///< kShort: no more than this is said to be transferred, and is, but for
                          ///< the rest of a block: devices take whole ones.
};

/// The test's hand on an engine that a BlockFile owns.
struct FaultControl {
  std::function<Fault(const BlockTransfer&)> choose = [](const BlockTransfer&) { return Fault(); };
  bool released = false;      ///< Held transfers go on.
  bool heeds_cancel = true;   ///< Whether held transfers end when they are cancelled.
  std::size_t in_flight = 0;  ///< Started and not reaped.
  std::size_t most_in_flight = 0;
  std::size_t syncs = 0;
};

class FaultyEngine final : public BlockEngine {
 public:
  FaultyEngine(std::unique_ptr<BlockEngine> inner, std::shared_ptr<FaultControl> control)
      : inner_(std::move(inner)), control_(std::move(control)) {}

  [[nodiscard]] const char* name() const override { return inner_->name(); }

  void start(const BlockTransfer& transfer) override {
    control_->most_in_flight = std::max(control_->most_in_flight, ++control_->in_flight);
    if (transfer.operation == BlockOperation::kSync) ++control_->syncs;
    const Fault fault = control_->choose(transfer);
    if (fault.kind == Fault::kError) {
      ready_.push_back({transfer.id, -fault.system_error});
    } else if (fault.kind == Fault::kHold) {
      held_.push_back(transfer);
    } else {
      BlockTransfer passed = transfer;
      if (fault.kind == Fault::kShort) {
        const std::size_t whole = round_up(fault.bytes, kBlockBytes);
        passed.memory = passed.memory.first(std::min(whole, passed.memory.size()));
        claims_[transfer.id] = static_cast<std::int64_t>(fault.bytes);
      }
      inner_->start(passed);
    }
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::nanoseconds timeout) override {
    if (control_->released) {
      for (const BlockTransfer& transfer : std::exchange(held_, {})) inner_->start(transfer);
    }
    std::size_t count = 0;
    for (; count < results.size() && !ready_.empty(); ready_.pop_front()) {
      results[count++] = ready_.front();
    }
    if (count == 0) {
      count = inner_->reap(results, timeout);
      for (BlockResult& result : results.first(count)) {
        const auto claim = claims_.find(result.id);
        if (claim == claims_.end()) continue;
        result.bytes = std::min(result.bytes, claim->second);
        claims_.erase(claim);
      }
    }
    control_->in_flight -= count;
    return count;
  }

  void cancel_all() override {
    inner_->cancel_all();
    if (!control_->heeds_cancel) return;
    for (const BlockTransfer& transfer : std::exchange(held_, {})) {
      ready_.push_back({transfer.id, -ECANCELED});
    }
  }

 private:
  std::unique_ptr<BlockEngine> inner_;
  std::shared_ptr<FaultControl> control_;
  std::deque<BlockResult> ready_;
  std::vector<BlockTransfer> held_;
  std::map<std::uint32_t, std::int64_t> claims_;  ///< The most that a transfer may have brought.
};

}  // namespace nearkv::test

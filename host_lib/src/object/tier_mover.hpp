// Hands cold objects down to the next tier before a tier is full.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "nearkv/object_store.hpp"
#include "object/wall_clock.hpp"

namespace nearkv {

/// The numbers that one namespace has in each tier. Thread safety: all calls.
class TierNumbers {
 public:
  /// `numbers`, one for each tier; the first is the namespace's in the stack.
  void add(std::vector<std::uint32_t> numbers);

  void remove(std::uint32_t number);

  /// Its number in a tier; nothing if the stack does not know it.
  [[nodiscard]] std::optional<std::uint32_t> in_tier(std::uint32_t number, std::size_t tier) const;

  /// The stack's number of a tier's.
  [[nodiscard]] std::optional<std::uint32_t> in_stack(std::uint32_t number, std::size_t tier) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> numbers_;
};

/// One object on its way from a tier to another. Whoever copies sees to it that nobody erases or
/// replaces it meanwhile.
class TierCopy {
 public:
  /// `clock`: StackOptions'. Both outlive this.
  TierCopy(const ObjectInfo& info, const WallClock& clock) : info_(info), clock_(clock) {}

  /// Reads it, unseen by eviction and statistics, if it is still the one that was described. What
  /// is past its age is not copied: kNotFound.
  Status read(ObjectStore* from);

  /// Stores what was read, with its parts and the age that is left to it.
  Status write(ObjectStore* to, std::uint32_t namespace_number, bool overwrite, bool evict);

  /// Takes it away from where it was read.
  Status erase(ObjectStore* from);

 private:
  Status run(ObjectStore* store, Job job);

  const ObjectInfo& info_;
  const WallClock& clock_;
  std::chrono::seconds age_{0};
  std::vector<std::byte> contents_;
};

/// One thread that watches the tiers but the last. Where more than the high watermark of a tier is
/// used, it copies the coldest objects to the tier below, batch by batch, and then erases them,
/// until the low watermark is reached. An object that is replaced or used meanwhile stays.
class TierMover {
 public:
  /// `order` is held while an object is in the middle of a move.
  TierMover(std::span<const std::unique_ptr<ObjectStore>> tiers, const StackOptions& options,
            const TierNumbers* numbers, std::mutex* order);
  TierMover(const TierMover&) = delete;
  TierMover& operator=(const TierMover&) = delete;
  ~TierMover();

  /// Somebody waits for room in the first tier.
  void wake();

  /// Whether the last hand-down found nobody below: who waits for one waits in vain.
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }

  [[nodiscard]] std::uint64_t demotions() const { return demotions_; }

 private:
  void work();
  /// Brings a tier below its low watermark if it is above the high one; `wanted`: somebody waits
  /// for room in it.
  void relieve(std::size_t tier, bool wanted);
  /// Moves one batch out of a tier; false if nothing moved.
  bool demote(std::size_t tier);
  bool demote_one(std::size_t tier, const ObjectInfo& info);
  [[nodiscard]] bool is_above(std::size_t tier, double watermark) const;

  std::span<const std::unique_ptr<ObjectStore>> tiers_;
  StackOptions options_;
  const TierNumbers* numbers_;
  std::mutex* order_;
  std::atomic<std::uint64_t> demotions_{0};
  std::atomic<bool> is_cut_off_{false};  ///< The last hand-down found nobody below.
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool woken_ = false;
  std::thread thread_;
};

}  // namespace nearkv

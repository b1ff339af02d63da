#include "replay.hpp"

#include <chrono>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace nearkv::replay {
namespace {

/// A tier's records, without the bytes: which block each holds. Records are used again.
class Tier {
 public:
  Tier(std::size_t blocks, EvictionPolicy* policy, std::uint64_t capacity_blocks,
       std::uint32_t block_bytes)
      : policy_(policy),
        capacity_bytes_(capacity_blocks * block_bytes),
        block_bytes_(block_bytes),
        record_of_(blocks, kNoObject) {}

  [[nodiscard]] bool holds(std::uint32_t block) const { return record_of_[block] != kNoObject; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  void use(std::uint32_t block) { policy_->hit(record_of_[block]); }

  /// False if there is no room for it.
  bool store(const Trace& trace, std::uint32_t block, ObjectId parent) {
    while (policy_->bytes() + block_bytes_ > capacity_bytes_) {
      const auto victim = policy_->victim([](ObjectId) { return true; });
      if (!victim) return false;
      policy_->erase(*victim, Removal::kEvicted);
      record_of_[block_of_[*victim]] = kNoObject;
      free_.push_back(*victim);
      ++evictions_;
    }
    if (free_.empty()) {
      free_.push_back(static_cast<ObjectId>(block_of_.size()));
      block_of_.push_back(0);
    }
    const ObjectId record = free_.back();
    free_.pop_back();
    block_of_[record] = block;
    record_of_[block] = record;
    policy_->insert({.id = record,
                     .fingerprint = trace.hash_ids[block],
                     .bytes = block_bytes_,
                     .parent = parent});
    return true;
  }

  [[nodiscard]] ObjectId record_of(std::uint32_t block) const { return record_of_[block]; }

 private:
  EvictionPolicy* policy_;
  std::uint64_t capacity_bytes_;
  std::uint32_t block_bytes_;
  std::uint64_t evictions_ = 0;
  std::vector<ObjectId> record_of_;      ///< By block.
  std::vector<std::uint32_t> block_of_;  ///< By record.
  std::vector<ObjectId> free_;
};

}  // namespace

Outcome replay(const Trace& trace, EvictionPolicy* policy, std::uint64_t capacity_blocks,
               std::uint32_t block_bytes) {
  Outcome outcome;
  Tier tier(trace.hash_ids.size(), policy, capacity_blocks, block_bytes);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t index = 0; index < trace.requests(); ++index) {
    const auto blocks = trace.request(index);
    std::size_t prefix = 0;
    while (prefix < blocks.size() && tier.holds(blocks[prefix])) tier.use(blocks[prefix++]);
    outcome.prefix_hits += prefix;
    for (std::size_t i = prefix; i < blocks.size(); ++i) {
      if (tier.holds(blocks[i])) {
        tier.use(blocks[i]);
        continue;
      }
      const ObjectId parent = i == 0 ? kNoObject : tier.record_of(blocks[i - 1]);
      if (!tier.store(trace, blocks[i], parent)) break;
    }
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  outcome.ns_per_block = elapsed.count() / static_cast<double>(trace.blocks.size());
  outcome.evictions = tier.evictions();
  return outcome;
}

std::uint64_t infinite_hits(const Trace& trace) {
  std::vector<bool> seen(trace.hash_ids.size());
  std::uint64_t hits = 0;
  for (std::size_t index = 0; index < trace.requests(); ++index) {
    const auto blocks = trace.request(index);
    std::size_t prefix = 0;
    while (prefix < blocks.size() && seen[blocks[prefix]]) ++prefix;
    hits += prefix;
    for (const std::uint32_t block : blocks) seen[block] = true;
  }
  return hits;
}

Outcome belady(const Trace& trace, std::uint64_t capacity_blocks) {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> next_use(trace.blocks.size());
  std::vector<std::size_t> later(trace.hash_ids.size(), kNever);
  for (std::size_t i = trace.blocks.size(); i-- > 0;) {
    next_use[i] = std::exchange(later[trace.blocks[i]], i);
  }
  // A block is used no later than those behind it in its chain, so a tier of those used again
  // soonest holds whole prefixes, and each of its hits is a prefix hit.
  Outcome outcome;
  std::set<std::pair<std::size_t, std::uint32_t>> held;
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const std::uint32_t block = trace.blocks[i];
    outcome.prefix_hits += held.erase({i, block});
    if (next_use[i] == kNever) continue;
    held.emplace(next_use[i], block);
    if (held.size() <= capacity_blocks) continue;
    outcome.evictions += std::prev(held.end())->second != block ? 1 : 0;
    held.erase(std::prev(held.end()));
  }
  return outcome;
}

}  // namespace nearkv::replay

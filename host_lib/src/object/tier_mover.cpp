#include "object/tier_mover.hpp"

#include <algorithm>
#include <utility>

namespace nearkv {
namespace {

constexpr std::uint64_t kBatchBytes = 8 << 20;
constexpr std::chrono::milliseconds kPeriod{20};
constexpr std::chrono::microseconds kPoll{200};

}  // namespace

void TierNumbers::add(std::vector<std::uint32_t> numbers) {
  const std::scoped_lock lock(mutex_);
  numbers_[numbers.front()] = std::move(numbers);
}

std::optional<std::uint32_t> TierNumbers::in_tier(std::uint32_t number, std::size_t tier) const {
  const std::scoped_lock lock(mutex_);
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return std::nullopt;
  return found->second[tier];
}

std::optional<std::uint32_t> TierNumbers::in_stack(std::uint32_t number, std::size_t tier) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(
      numbers_, [&](const auto& entry) { return entry.second[tier] == number; });
  if (found == numbers_.end()) return std::nullopt;
  return found->first;
}

TierMover::TierMover(std::span<const std::unique_ptr<ObjectStore>> tiers,
                     const StackOptions& options, const TierNumbers* numbers, std::mutex* order)
    : tiers_(tiers), options_(options), numbers_(numbers), order_(order), thread_([this] {
        work();
      }) {}

TierMover::~TierMover() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TierMover::wait_for_room(std::uint64_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + options_.patience;
  while (true) {
    const ObjectStoreStats stats = tiers_.front()->stats();
    if (stats.used_bytes + bytes <= stats.total_bytes) return;
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    wake_.notify_one();
    if (std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(kPoll);
  }
}

bool TierMover::is_above(std::size_t tier, double watermark) const {
  const ObjectStoreStats stats = tiers_[tier]->stats();
  return static_cast<double>(stats.used_bytes) > watermark * static_cast<double>(stats.total_bytes);
}

void TierMover::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kPeriod, [this] { return stop_ || woken_; });
    woken_ = false;
    for (std::size_t tier = 0; tier + 1 < tiers_.size() && !stop_; ++tier) {
      lock.unlock();
      bool stop = !is_above(tier, options_.high_watermark);
      while (!stop && is_above(tier, options_.low_watermark) && demote(tier)) {
        const std::scoped_lock relock(mutex_);
        stop = stop_;
      }
      lock.lock();
    }
  }
}

bool TierMover::demote(std::size_t tier) {
  bool moved = false;
  for (const ObjectInfo& info : tiers_[tier]->coldest(kBatchBytes)) {
    if (demote_one(tier, info)) {
      ++demotions_;
      moved = true;
    }
  }
  return moved;
}

bool TierMover::demote_one(std::size_t tier, const ObjectInfo& info) {
  const auto number = numbers_->in_stack(info.namespace_number, tier);
  if (!number) return false;
  std::vector<std::byte> data(info.bytes);
  const std::span<std::byte> target(data);
  const std::span<const std::byte> source(data);
  ObjectItem item;
  item.key = info.key;
  item.key_is_digest = info.key_is_digest;
  item.generation = info.generation;
  item.target = std::span(&target, 1);
  item.source = std::span(&source, 1);
  Job job;
  job.items = std::span(&item, 1);
  JobResult result;
  const auto run = [&](std::size_t where, JobKind kind, std::uint32_t its_number) {
    job.kind = kind;
    job.namespace_number = its_number;
    return tiers_[where]->run(job, &result) == Status::kOk && result.all_ok();
  };
  // Nobody erases or replaces it between these three.
  const std::scoped_lock lock(*order_);
  job.quiet = true;
  if (!run(tier, JobKind::kGet, info.namespace_number)) return false;
  job.quiet = false;
  job.overwrite = true;
  job.parts = info.parts;
  // What the tier below has no room for is lost to this one's eviction, as without a stack.
  if (!run(tier + 1, JobKind::kSet, *numbers_->in_tier(*number, tier + 1))) return false;
  job.overwrite = false;
  job.parts = 0;
  return run(tier, JobKind::kErase, info.namespace_number);
}

}  // namespace nearkv

#include "object/tier_mover.hpp"

#include <algorithm>
#include <utility>

#include "edge.hpp"
#include "object/object_jobs.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kMostBatchBytes = 8 << 20;
constexpr std::chrono::milliseconds kPeriod{20};

}  // namespace

void TierNumbers::add(std::vector<std::uint32_t> numbers) {
  const std::scoped_lock lock(mutex_);
  numbers_[numbers.front()] = std::move(numbers);
}

void TierNumbers::remove(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  numbers_.erase(number);
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

Status TierCopy::run(ObjectStore* store, Job job) {
  const std::span<std::byte> target(contents_);
  const std::span<const std::byte> source(contents_);
  ObjectItem item;
  item.key = info_.key;
  item.key_is_digest = info_.key_is_digest;
  item.generation = info_.generation;
  item.target = std::span(&target, 1);
  item.source = std::span(&source, 1);
  job.items = std::span(&item, 1);
  JobResult result;
  const Status status = store->run(job, &result);
  return status == Status::kOk ? result.items.front() : status;
}

Status TierCopy::read(ObjectStore* from) {
  if (info_.expires_s != 0) {
    const auto now = clock_ ? clock_() : std::chrono::system_clock::now();
    age_ = std::chrono::seconds(info_.expires_s) - std::chrono::seconds(record_seconds(now));
    if (age_.count() <= 0) return Status::kNotFound;
  }
  contents_.resize(info_.bytes);
  Job job;
  job.namespace_number = info_.namespace_number;
  job.quiet = true;
  return run(from, job);
}

Status TierCopy::write(ObjectStore* to, std::uint32_t namespace_number, bool overwrite,
                       bool evict) {
  Job job;
  job.kind = JobKind::kSet;
  job.namespace_number = namespace_number;
  job.overwrite = overwrite;
  job.evict = evict;
  job.parts = info_.parts;
  job.age = age_;
  return run(to, job);
}

Status TierCopy::erase(ObjectStore* from) {
  Job job;
  job.kind = JobKind::kErase;
  job.namespace_number = info_.namespace_number;
  return run(from, job);
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

void TierMover::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

bool TierMover::is_above(std::size_t tier, double watermark) const {
  const ObjectStoreStats stats = tiers_[tier]->stats();
  return static_cast<double>(stats.used_bytes) > watermark * static_cast<double>(stats.total_bytes);
}

void TierMover::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kPeriod, [this] { return stop_ || woken_; });
    const bool wanted = std::exchange(woken_, false);
    for (std::size_t tier = 0; tier + 1 < tiers_.size() && !stop_; ++tier) {
      lock.unlock();
      // Where memory is short, the next look may find more.
      (void)at_edge([&] {
        relieve(tier, wanted && tier == 0);
        return Status::kOk;
      });
      lock.lock();
    }
  }
}

void TierMover::relieve(std::size_t tier, bool wanted) {
  // Whoever asks for room found none: there may be less than the watermark tells.
  bool stop = !is_above(tier, options_.high_watermark) && !(wanted && demote(tier));
  while (!stop && is_above(tier, options_.low_watermark) && demote(tier)) {
    const std::scoped_lock lock(mutex_);
    stop = stop_;
  }
}

bool TierMover::demote(std::size_t tier) {
  bool moved = false;
  const double between_watermarks = (options_.high_watermark - options_.low_watermark) *
                                    static_cast<double>(tiers_[tier]->stats().total_bytes);
  const auto batch_bytes =
      std::min(kMostBatchBytes, static_cast<std::uint64_t>(between_watermarks));
  for (const ObjectInfo& info : tiers_[tier]->coldest(batch_bytes)) {
    if (demote_one(tier, info)) {
      moved = true;
    } else if (is_cut_off_) {
      break;
    }
  }
  return moved;
}

bool TierMover::demote_one(std::size_t tier, const ObjectInfo& info) {
  const auto number = numbers_->in_stack(info.namespace_number, tier);
  if (!number) return false;
  const std::scoped_lock lock(*order_);
  TierCopy copy(info, options_.clock);
  if (copy.read(tiers_[tier].get()) != Status::kOk) return false;
  const bool is_last = tier + 2 == tiers_.size();
  const Status below =
      copy.write(tiers_[tier + 1].get(), *numbers_->in_tier(*number, tier + 1), true, is_last);
  is_cut_off_ = is_away(below);
  if (below != Status::kOk || copy.erase(tiers_[tier].get()) != Status::kOk) return false;
  ++demotions_;  // In order with changes: a set that takes the room finds it counted.
  return true;
}

}  // namespace nearkv

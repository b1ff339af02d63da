#include "pool/command_batch.hpp"

#include <algorithm>
#include <array>

#include "deadline.hpp"
#include "round_up.hpp"

namespace nearkv {

CommandBatch::CommandBatch(Queue* queue, std::span<std::byte> memory, std::uint64_t begin,
                           std::uint64_t bytes, NearStats* stats)
    : queue_(queue),
      memory_(memory),
      begin_(begin),
      end_(begin + bytes),
      next_(begin),
      stats_(stats) {}

bool CommandBatch::reserve(std::uint64_t bytes, std::uint64_t* address) {
  if (bytes > end_ - next_) return false;
  *address = next_;
  next_ += std::min(whole_bursts(bytes), end_ - next_);
  return true;
}

void CommandBatch::write(std::uint64_t address, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, at(address));
  stats_->link_to_device_bytes += bytes.size();
}

void CommandBatch::read(std::uint64_t address, std::span<std::byte> bytes) {
  std::copy_n(at(address), bytes.size(), bytes.begin());
  stats_->link_from_device_bytes += bytes.size();
}

Status CommandBatch::run(std::chrono::milliseconds timeout) {
  completions_.assign(tags_.size(), {});
  stats_->commands += tags_.size();
  stats_->link_to_device_bytes += tags_.size() * NKV_COMMAND_BYTES;
  stats_->link_from_device_bytes += tags_.size() * NKV_COMPLETION_BYTES;
  if (!tags_.empty()) queue_->ring();
  const auto deadline = deadline_after(timeout);
  std::array<nkv_completion, 16> arrived;
  for (std::size_t done = 0; done < tags_.size();) {
    const Status status = queue_->wait(deadline - std::chrono::steady_clock::now());
    if (status != Status::kOk) return status;
    const std::size_t count = queue_->poll(arrived);
    for (const nkv_completion& completion : std::span(arrived).first(count)) {
      const auto tag = std::ranges::find(tags_, completion.tag);
      if (tag == tags_.end()) return Status::kInternal;
      completions_[static_cast<std::size_t>(tag - tags_.begin())] = completion;
      stats_->stream_bytes += std::uint64_t{completion.stream_bursts} * NKV_BURST_BYTES;
      stats_->refine_bytes += std::uint64_t{completion.refine_bursts} * NKV_BURST_BYTES;
      stats_->exact_bytes += std::uint64_t{completion.exact_bursts} * NKV_BURST_BYTES;
      stats_->value_bytes += std::uint64_t{completion.value_bursts} * NKV_BURST_BYTES;
      stats_->device_ticks += completion.ticks;
      if ((completion.flags & NKV_COMPLETION_FLAG_NONFINITE) != 0) ++stats_->nonfinite;
      if ((completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0) ++stats_->dense_fallbacks;
    }
    done += count;
  }
  return Status::kOk;
}

void CommandBatch::clear() {
  go_on();
  next_ = begin_;
}

void CommandBatch::go_on() {
  queue_->take_back();
  tags_.clear();
  completions_.clear();
}

}  // namespace nearkv

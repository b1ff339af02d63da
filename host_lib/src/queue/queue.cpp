#include "nearkv/queue.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "deadline.hpp"
#include "edge.hpp"
#include "forks.hpp"

namespace nearkv {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

/// Not every device wakes who waits when a queue stops: so often it is looked at.
constexpr nanoseconds kLookForStop = std::chrono::milliseconds(100);
/// A queue that was told to stop mostly has.
constexpr nanoseconds kLookForStopped = std::chrono::milliseconds(1);

/// In the first 32 bits of a slot.
constexpr unsigned kTagShift = 8 * offsetof(nkv_attend_command, tag);
constexpr std::uint32_t kPhase = NKV_SLOT_FLAG_PHASE << 8 * offsetof(nkv_attend_command, flags);

/// Of a slot or a completion: what is written last, and read first.
std::atomic_ref<std::uint32_t> first_word(std::byte* entry) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(entry));
}

bool is_running(Device* device, unsigned index) {
  return (device->read_csr(NKV_REG_QUEUE_STATUS(index)) & NKV_REG_QUEUE_STATUS_RUNNING_MASK) != 0;
}

}  // namespace

Queue::Queue(Device* device, const Options& options)
    : device_(device), options_(options), forks_(fork_count()) {}

Status Queue::open(Device* device, const Options& options, std::unique_ptr<Queue>* queue) {
  if (options.index >= NKV_MAX_QUEUES) return Status::kBadArgument;
  const std::span<std::byte> memory = device->memory();
  const std::uint64_t bytes = ring_bytes(options.ring_entries);
  if (options.rings_at > memory.size() || bytes > memory.size() - options.rings_at) {
    return Status::kBadArgument;
  }
  const unsigned i = options.index;
  // RUNNING below is to be this start's, and the rings are the device's until then.
  const Status stopped = stop(device, options);
  if (stopped != Status::kOk) return stopped;
  std::ranges::fill(memory.subspan(options.rings_at, bytes), std::byte{0});
  device->write_csr(NKV_REG_SQ_BASE(i), options.rings_at);
  device->write_csr(NKV_REG_CQ_BASE(i), options.rings_at + bytes / 2);
  device->write_csr(NKV_REG_RING_ENTRIES(i), options.ring_entries);
  device->write_csr(NKV_REG_WINDOW_BASE(i), options.window_base);
  device->write_csr(NKV_REG_WINDOW_BYTES(i), options.window_bytes);
  device->write_csr(NKV_REG_TENANT(i), options.tenant);
  // What an earlier user of the queue left; enabling starts at index 0.
  device->write_csr(NKV_REG_SQ_TAIL(i), 0);
  device->write_csr(NKV_REG_CQ_HEAD(i), 0);
  device->write_csr(NKV_REG_QUEUE_CONTROL(i), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
  const bool is_accepted = is_running(device, i);
  if (device->is_gone()) return Status::kNoDevice;
  if (!is_accepted) return Status::kBadArgument;
  return at_edge([&] {
    queue->reset(new Queue(device, options));
    return Status::kOk;
  });
}

Queue::~Queue() { device_->write_csr(NKV_REG_QUEUE_CONTROL(options_.index), 0); }

std::uint32_t Queue::phase(std::uint16_t index) const {
  return index / options_.ring_entries % 2 == 0 ? 1 : 0;
}

std::byte* Queue::submission(std::uint16_t index) const {
  return device_->memory().data() + options_.rings_at +
         (index % options_.ring_entries) * std::uint64_t{NKV_COMMAND_BYTES};
}

std::byte* Queue::completion(std::uint16_t index) const {
  return device_->memory().data() + options_.rings_at + ring_bytes(options_.ring_entries) / 2 +
         (index % options_.ring_entries) * std::uint64_t{NKV_COMPLETION_BYTES};
}

Status Queue::submit_bytes(std::span<const std::byte> command, std::uint16_t* tag) {
  if (fork_count() != forks_) return Status::kForked;
  if (in_flight_ == options_.ring_entries) return Status::kQueueFull;
  *tag = tail_;
  std::byte* const entry = submission(tail_);
  // As unwritten until ring(): a command that is taken back must not be found there.
  std::uint32_t first = 0;
  std::memcpy(&first, command.data(), sizeof(first));
  first &= ((1U << kTagShift) - 1) & ~kPhase;
  first |= std::uint32_t{tail_} << kTagShift | (phase(tail_) != 0 ? 0 : kPhase);
  std::memcpy(entry + sizeof(first), command.data() + sizeof(first),
              command.size() - sizeof(first));
  first_word(entry).store(first, std::memory_order_relaxed);
  ++tail_;
  ++in_flight_;
  return Status::kOk;
}

void Queue::ring() {
  for (; rung_ != tail_; ++rung_) {
    const std::atomic_ref<std::uint32_t> first = first_word(submission(rung_));
    first.store(first.load(std::memory_order_relaxed) ^ kPhase, std::memory_order_release);
  }
  device_->write_csr(NKV_REG_SQ_TAIL(options_.index), tail_);
}

void Queue::take_back() {
  in_flight_ -= static_cast<std::uint16_t>(tail_ - rung_);
  tail_ = rung_;
}

bool Queue::arrived() const {
  const std::uint32_t first = first_word(completion(polled_)).load(std::memory_order_acquire);
  return first >> 24 == phase(polled_);
}

std::size_t Queue::poll(std::span<nkv_completion> completions) {
  std::size_t taken = 0;
  while (taken < completions.size() && in_flight_ != 0 && arrived()) {
    std::memcpy(&completions[taken], completion(polled_), sizeof(nkv_completion));
    if (device_->is_gone()) break;  // It may have gone before this was read.
    // One that the device never saw has no tag of its own.
    const std::uint8_t status = completions[taken].status;
    if (status == NKV_STATUS_NOT_WRITTEN || status == NKV_STATUS_INTERNAL) {
      completions[taken].tag = polled_;
    }
    ++polled_;
    --in_flight_;
    ++taken;
  }
  if (taken != 0) device_->write_csr(NKV_REG_CQ_HEAD(options_.index), polled_);
  return taken;
}

Status Queue::stop(Device* device, const Options& options) {
  device->write_csr(NKV_REG_QUEUE_CONTROL(options.index), 0);
  const auto deadline = deadline_after(options.stop_timeout);
  std::uint64_t epoch = 0;
  while (is_running(device, options.index)) {
    if (device->is_gone()) return Status::kNoDevice;
    const nanoseconds left = deadline - steady_clock::now();
    if (left <= nanoseconds::zero()) return Status::kTimeout;
    (void)device->wait(&epoch, std::min(left, kLookForStopped));
  }
  return Status::kOk;
}

Status Queue::wait(nanoseconds timeout) {
  if (fork_count() != forks_) return Status::kForked;
  const auto deadline = deadline_after(timeout);
  while (!arrived()) {
    const nanoseconds left = deadline - steady_clock::now();
    if (left <= nanoseconds::zero()) return Status::kTimeout;
    // An early or spurious wake-up, or a time-out just missed, is settled by looking again.
    const Status status = device_->wait(&epoch_, std::min(left, kLookForStop));
    if (arrived()) break;
    if (status != Status::kOk && status != Status::kTimeout) return status;
    if (!is_running(device_, options_.index) && !arrived()) return Status::kAborted;
  }
  return Status::kOk;
}

}  // namespace nearkv

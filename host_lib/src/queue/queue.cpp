#include "nearkv/queue.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "edge.hpp"

namespace nearkv {

Queue::Queue(Device* device, const Options& options) : device_(device), options_(options) {}

Status Queue::open(Device* device, const Options& options, std::unique_ptr<Queue>* queue) {
  if (options.index >= NKV_MAX_QUEUES) return Status::kBadArgument;
  const std::span<std::byte> memory = device->memory();
  const std::uint64_t bytes = ring_bytes(options.ring_entries);
  if (options.rings_at > memory.size() || bytes > memory.size() - options.rings_at) {
    return Status::kBadArgument;
  }
  std::ranges::fill(memory.subspan(options.rings_at, bytes), std::byte{0});
  const unsigned i = options.index;
  device->write_csr(NKV_REG_QUEUE_CONTROL(i), 0);
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
  const std::uint64_t status = device->read_csr(NKV_REG_QUEUE_STATUS(i));
  if (device->is_gone()) return Status::kNoDevice;
  if ((status & NKV_REG_QUEUE_STATUS_RUNNING_MASK) == 0) return Status::kBadArgument;
  return at_edge([&] {
    queue->reset(new Queue(device, options));
    return Status::kOk;
  });
}

Queue::~Queue() { device_->write_csr(NKV_REG_QUEUE_CONTROL(options_.index), 0); }

std::byte* Queue::submission(std::uint16_t index) const {
  return device_->memory().data() + options_.rings_at +
         (index % options_.ring_entries) * std::uint64_t{NKV_COMMAND_BYTES};
}

std::byte* Queue::completion(std::uint16_t index) const {
  return device_->memory().data() + options_.rings_at + ring_bytes(options_.ring_entries) / 2 +
         (index % options_.ring_entries) * std::uint64_t{NKV_COMPLETION_BYTES};
}

Status Queue::submit_bytes(std::span<const std::byte> command, std::uint16_t* tag) {
  if (in_flight_ == options_.ring_entries) return Status::kQueueFull;
  *tag = tail_;
  std::byte* const entry = submission(tail_);
  std::memcpy(entry, command.data(), command.size());
  std::memcpy(entry + offsetof(nkv_attend_command, tag), tag, sizeof(*tag));
  ++tail_;
  ++in_flight_;
  return Status::kOk;
}

void Queue::ring() { device_->write_csr(NKV_REG_SQ_TAIL(options_.index), tail_); }

bool Queue::arrived() const {
  auto* const word = reinterpret_cast<std::uint32_t*>(completion(polled_));
  const std::uint32_t first = std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire);
  const std::uint32_t phase = (polled_ / options_.ring_entries) % 2 == 0 ? 1 : 0;
  return first >> 24 == phase;
}

std::size_t Queue::poll(std::span<nkv_completion> completions) {
  std::size_t taken = 0;
  while (taken < completions.size() && in_flight_ != 0 && arrived()) {
    std::memcpy(&completions[taken], completion(polled_), sizeof(nkv_completion));
    if (device_->is_gone()) break;  // It may have gone before this was read.
    ++polled_;
    --in_flight_;
    ++taken;
  }
  if (taken != 0) device_->write_csr(NKV_REG_CQ_HEAD(options_.index), polled_);
  return taken;
}

Status Queue::wait(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!arrived()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return Status::kTimeout;
    // An early or spurious wake-up, or a time-out just missed, is settled by looking again.
    const Status status = device_->wait(&epoch_, left);
    if (status != Status::kOk && !arrived()) return status;
  }
  return Status::kOk;
}

}  // namespace nearkv

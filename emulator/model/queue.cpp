#include "queue.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include "nkv_abi.h"

namespace nearkv::model {

namespace {

uint32_t burst_counter(uint64_t bursts) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min(bursts, kMost));
}

// Free-running 16-bit indices: how far `ahead` is before `behind`.
uint32_t distance(uint64_t ahead, uint16_t behind) {
  return static_cast<uint16_t>(static_cast<uint16_t>(ahead) - behind);
}

// The first 32 bits of a slot or an entry, which are written last.
std::atomic_ref<uint32_t> first_word(std::byte* place) {
  return std::atomic_ref(*std::launder(reinterpret_cast<uint32_t*>(place)));
}

}  // namespace

uint64_t Queue::status() const {
  return (is_running_ ? NKV_REG_QUEUE_STATUS_RUNNING_MASK : 0) |
         (is_refused_ ? NKV_REG_QUEUE_STATUS_REFUSED_MASK : 0);
}

void Queue::set_enabled(bool enabled) {
  const bool was_enabled = (registers_.control & NKV_REG_QUEUE_CONTROL_ENABLE_MASK) != 0;
  registers_.control = enabled ? NKV_REG_QUEUE_CONTROL_ENABLE_MASK : 0;
  if (enabled == was_enabled) return;
  is_running_ = enabled && is_acceptable();
  is_refused_ = enabled && !is_running_;
  running_ = registers_;
  sq_head_ = 0;
  cq_tail_ = 0;
}

bool Queue::is_acceptable() const {
  const QueueRegisters& r = registers_;
  if (!std::has_single_bit(r.ring_entries) || r.ring_entries < NKV_MIN_RING_ENTRIES ||
      r.ring_entries > NKV_MAX_RING_ENTRIES) {
    return false;
  }
  const Window device(memory_);
  const uint64_t ring_bytes = r.ring_entries * kCommandBytes;
  return r.sq_base % kCommandBytes == 0 && r.cq_base % kCommandBytes == 0 &&
         device.contains(r.sq_base, ring_bytes) && device.contains(r.cq_base, ring_bytes) &&
         r.window_base % NKV_PAGE_GRAIN_BYTES == 0 && r.window_bytes > 0 &&
         device.contains(r.window_base, r.window_bytes);
}

// A doorbell further ahead than the ring is long cannot be right; nothing is fetched for it.
bool Queue::has_command() const {
  const uint32_t submitted = distance(registers_.sq_tail, sq_head_);
  return submitted != 0 && submitted <= running_.ring_entries;
}

bool Queue::has_room() const {
  const uint32_t unread = static_cast<uint16_t>(cq_tail_ - registers_.cq_head);
  return unread < running_.ring_entries;
}

uint64_t Queue::run() {
  if (!is_running_) return 0;
  const Domain domain{
      .window = Window(memory_.subspan(running_.window_base, running_.window_bytes)),
      .tenant = static_cast<uint16_t>(running_.tenant)};
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::microseconds(NKV_SLOT_PATIENCE_US);
  uint64_t posted = 0;
  while (has_command() && has_room()) {
    if (const std::optional<Command> command = fetch(deadline)) {
      post(tag_of(*command), (*executor_)(domain, *command));
    } else {
      post(0, failure({NKV_STATUS_NOT_WRITTEN, 0}));
    }
    ++posted;
  }
  return posted;
}

std::optional<Command> Queue::fetch(std::chrono::steady_clock::time_point deadline) {
  constexpr uint32_t kPhaseBit = 8 + std::countr_zero(uint32_t{NKV_SLOT_FLAG_PHASE});
  std::byte* const place =
      memory_.data() + running_.sq_base + sq_head_ % running_.ring_entries * kCommandBytes;
  const uint32_t phase = (sq_head_ / running_.ring_entries & 1) == 0 ? 1 : 0;
  ++sq_head_;
  while ((first_word(place).load(std::memory_order_acquire) >> kPhaseBit & 1) != phase) {
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::yield();
  }
  Command command;
  std::memcpy(command.data(), place, command.size());
  command[offsetof(nkv_append_command, flags)] &= ~std::byte{NKV_SLOT_FLAG_PHASE};
  return command;
}

void Queue::post(uint16_t tag, const Outcome& outcome) {
  const uint64_t slot = cq_tail_ % running_.ring_entries;
  const bool is_odd_round = (cq_tail_ / running_.ring_entries & 1) != 0;
  nkv_completion completion{};
  completion.tag = tag;
  completion.status = outcome.verdict.status;
  completion.phase = is_odd_round ? 0 : 1;
  completion.count = outcome.count;
  completion.detail = outcome.verdict.detail;
  completion.stream_bursts = burst_counter(outcome.traffic.stream);
  completion.refine_bursts = burst_counter(outcome.traffic.refine);
  completion.exact_bursts = burst_counter(outcome.traffic.exact);
  completion.value_bursts = burst_counter(outcome.traffic.value);
  completion.sq_head = sq_head_;
  completion.flags = outcome.flags;
  completion.rounds = outcome.rounds;
  completion.bound = outcome.bound;

  // The first 32 bits carry the phase and go last, after everything that they announce.
  using Words = std::array<uint32_t, kCommandBytes / sizeof(uint32_t)>;
  const auto words = std::bit_cast<Words>(completion);
  std::byte* const place = memory_.data() + running_.cq_base + slot * kCommandBytes;
  std::memcpy(place + sizeof(uint32_t), words.data() + 1, kCommandBytes - sizeof(uint32_t));
  first_word(place).store(words[0], std::memory_order_release);
  ++cq_tail_;
}

}  // namespace nearkv::model

#include "function/function.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "device/queue_register.hpp"

namespace nearkv::emulator {
namespace {

template <typename Value>
Value read_shared(const std::byte* place) {
  return std::atomic_ref(*reinterpret_cast<Value*>(const_cast<std::byte*>(place)))
      .load(std::memory_order_acquire);
}

static_assert(NKV_CARD_MANAGEMENT_AT >= NKV_REG_MAP_BYTES);

bool is_management(std::uint32_t offset) {
  return offset >= NKV_CARD_MANAGEMENT_AT &&
         offset - NKV_CARD_MANAGEMENT_AT < NKV_CARD_MANAGEMENT_BYTES;
}

}  // namespace

Function::Function(Device* device, Interrupt interrupt, ManagementRegisters* management)
    : device_(device),
      interrupt_(std::move(interrupt)),
      management_(management),
      memory_(device->memory()) {}

std::uint64_t Function::read(std::uint32_t offset) {
  if (is_management(offset)) {
    return management_ != nullptr ? management_->read(offset - NKV_CARD_MANAGEMENT_AT) : ~0ULL;
  }
  if (offset >= NKV_REG_MAP_BYTES) return ~0ULL;
  if (const auto place = find_queue_register(offset)) {
    const bool is_status = place->base_offset == NKV_REG_QUEUE_STATUS(0);
    if (is_status && std::exchange(rings_.at(place->index).is_undecided, false)) return 0;
  }
  switch (offset) {
    case NKV_REG_FEATURES:
      return device_->read_csr(offset) | NKV_FEATURE_MEMORY_DOORBELLS;
    case NKV_REG_DOORBELL_BASE:
      return doorbell_base_;
    case NKV_REG_DOORBELL_ENABLE:
      return doorbells_.to_ullong();
    default:
      return device_->read_csr(offset);
  }
}

void Function::write(std::uint32_t offset, std::uint64_t value) {
  if (is_management(offset)) {
    if (management_ != nullptr) management_->write(offset - NKV_CARD_MANAGEMENT_AT, value);
    return;
  }
  if (offset >= NKV_REG_MAP_BYTES) return;
  const bool is_reset = offset == NKV_REG_CONTROL && (value & NKV_REG_CONTROL_RESET_MASK) != 0;
  if (is_reset) {
    rings_ = {};
    doorbells_.reset();
  } else if (offset == NKV_REG_DOORBELL_BASE) {
    doorbell_base_ = value;
    return;
  } else if (offset == NKV_REG_DOORBELL_ENABLE) {
    const std::bitset<NKV_MAX_QUEUES> enabled(value);
    for (unsigned i = 0; i < NKV_MAX_QUEUES; ++i) {
      if (enabled[i] && !doorbells_[i]) rings_.at(i).heard = doorbell(i);
    }
    doorbells_ = enabled;
    return;
  }
  device_->write_csr(offset, value);
  if (const auto place = find_queue_register(offset)) {
    write_queue(place->index, place->base_offset, value);
  }
}

void Function::write_queue(unsigned index, std::uint32_t offset, std::uint64_t value) {
  Ring& ring = rings_.at(index);
  if (offset == NKV_REG_SQ_TAIL(0)) {
    ring.submitted = static_cast<std::uint16_t>(value);
  } else if (offset == NKV_REG_QUEUE_CONTROL(0)) {
    const bool is_enabled = (value & NKV_REG_QUEUE_CONTROL_ENABLE_MASK) != 0;
    if (is_enabled && !ring.is_running) start(index);
    if (!is_enabled) ring.is_running = ring.is_undecided = false;
  }
}

void Function::start(unsigned index) {
  Ring& ring = rings_.at(index);
  const std::uint64_t status = device_->read_csr(NKV_REG_QUEUE_STATUS(index));
  ring.is_undecided = true;
  ring.entries = device_->read_csr(NKV_REG_RING_ENTRIES(index));
  ring.completions_at = device_->read_csr(NKV_REG_CQ_BASE(index));
  // One that still drains is RUNNING, whatever its registers say by now.
  const bool is_inside =
      ring.entries != 0 && ring.entries <= memory_.size() / NKV_COMPLETION_BYTES &&
      ring.completions_at <= memory_.size() - ring.entries * NKV_COMPLETION_BYTES;
  ring.is_running = is_inside && (status & NKV_REG_QUEUE_STATUS_RUNNING_MASK) != 0;
  ring.submitted = static_cast<std::uint16_t>(device_->read_csr(NKV_REG_SQ_TAIL(index)));
  ring.completed = 0;
}

void Function::wipe(std::uint64_t at, std::uint64_t bytes) {
  if (at > memory_.size() || bytes > memory_.size() - at) return;
  const auto part = memory_.subspan(at, bytes);
  // A file need not keep zeros; what cannot be given back is written.
  if (::madvise(part.data(), part.size(), MADV_REMOVE) != 0) {
    std::ranges::fill(part, std::byte{0});
  }
}

nkv_doorbell_line Function::doorbell(unsigned index) const {
  const std::uint64_t at = doorbell_base_ + index * std::uint64_t{NKV_DOORBELL_STRIDE_BYTES};
  nkv_doorbell_line line{};
  if (at % NKV_BURST_BYTES != 0 || at > memory_.size() - sizeof(line)) return line;
  const std::byte* const place = memory_.data() + at;
  line.sq_tail = read_shared<std::uint16_t>(place + offsetof(nkv_doorbell_line, sq_tail));
  line.cq_head = read_shared<std::uint16_t>(place + offsetof(nkv_doorbell_line, cq_head));
  return line;
}

bool Function::hear() {
  bool has_rung = false;
  for (unsigned i = 0; i < NKV_MAX_QUEUES; ++i) {
    if (!doorbells_[i]) continue;
    Ring& ring = rings_.at(i);
    const nkv_doorbell_line line = doorbell(i);
    if (line.cq_head != ring.heard.cq_head) write(NKV_REG_CQ_HEAD(i), line.cq_head);
    if (line.sq_tail != ring.heard.sq_tail) write(NKV_REG_SQ_TAIL(i), line.sq_tail);
    has_rung |= line.cq_head != ring.heard.cq_head || line.sq_tail != ring.heard.sq_tail;
    ring.heard = line;
  }
  return has_rung;
}

const std::byte* Function::completion(const Ring& ring) const {
  if (!ring.is_running || ring.completed == ring.submitted) return nullptr;
  const std::byte* const place =
      memory_.data() + ring.completions_at + ring.completed % ring.entries * NKV_COMPLETION_BYTES;
  const auto phase = read_shared<std::uint8_t>(place + offsetof(nkv_completion, phase));
  return phase == (ring.completed / ring.entries % 2 == 0 ? 1 : 0) ? place : nullptr;
}

bool Function::tell() {
  bool has_told = false;
  for (unsigned i = 0; i < NKV_MAX_QUEUES; ++i) {
    Ring& ring = rings_.at(i);
    const std::byte* place = completion(ring);
    if (place == nullptr) continue;
    bool has_failed = false;
    for (; place != nullptr; place = completion(ring)) {
      const auto status = read_shared<std::uint8_t>(place + offsetof(nkv_completion, status));
      has_failed |= status != NKV_STATUS_OK;
      ++ring.completed;
    }
    if (has_failed) interrupt_(NKV_REG_INTERRUPT_STATUS_ERRORS_SHIFT);
    interrupt_(NKV_REG_INTERRUPT_STATUS_QUEUES_SHIFT + i);
    has_told = true;
  }
  return has_told;
}

bool Function::is_busy() const {
  return std::ranges::any_of(
      rings_, [](const Ring& ring) { return ring.is_running && ring.completed != ring.submitted; });
}

bool Function::run(std::chrono::nanoseconds patience) {
  bool has_happened = hear();
  has_happened |= tell();
  if (!is_busy()) return has_happened;
  if (device_->wait(&epoch_, patience) == Status::kOk) has_happened |= tell();
  return has_happened;
}

}  // namespace nearkv::emulator

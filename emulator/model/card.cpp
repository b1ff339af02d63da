#include "card.hpp"

#include <bit>
#include <optional>

#include "nkv_abi.h"

namespace nearkv::model {

namespace {

// What a register reads that belongs to a feature which the model does not offer.
uint64_t other_register(uint32_t offset) { return nkv_is_register(offset) ? 0 : ~uint64_t{0}; }

constexpr uint64_t kMaxTokensLog2 = std::bit_width(uint32_t{NKV_MAX_TOKENS}) - 1;

constexpr uint64_t kLimits = uint64_t{NKV_MAX_QUEUES} << NKV_REG_LIMITS_QUEUES_SHIFT |
                             uint64_t{NKV_MAX_GROUP} << NKV_REG_LIMITS_GROUP_SHIFT |
                             uint64_t{NKV_MAX_HEAD_DIM} << NKV_REG_LIMITS_HEAD_DIM_SHIFT |
                             uint64_t{NKV_MAX_TOP_K} << NKV_REG_LIMITS_TOP_K_SHIFT |
                             kMaxTokensLog2 << NKV_REG_LIMITS_TOKENS_LOG2_SHIFT;

constexpr uint64_t kAbi = uint64_t{NKV_ABI_MAJOR} << NKV_REG_ABI_MAJOR_SHIFT |
                          uint64_t{NKV_ABI_MINOR} << NKV_REG_ABI_MINOR_SHIFT;

// A register of queue `number`: where queue 0 has it.
struct QueueOffset {
  size_t number;
  uint32_t base_offset;
};

std::optional<QueueOffset> queue_offset(uint32_t offset) {
  constexpr uint32_t kFirst = NKV_REG_SQ_BASE(0);
  constexpr uint32_t kStride = NKV_REG_SQ_BASE_STRIDE;
  if (offset < kFirst || offset >= kFirst + NKV_MAX_QUEUES * kStride) return std::nullopt;
  return QueueOffset{.number = (offset - kFirst) / kStride,
                     .base_offset = kFirst + (offset - kFirst) % kStride};
}

// The registers that are plain storage while the queue stands still.
uint64_t* stored_register(QueueRegisters& registers, uint32_t base_offset) {
  switch (base_offset) {
    case NKV_REG_SQ_BASE(0):
      return &registers.sq_base;
    case NKV_REG_CQ_BASE(0):
      return &registers.cq_base;
    case NKV_REG_RING_ENTRIES(0):
      return &registers.ring_entries;
    case NKV_REG_QUEUE_CONTROL(0):
      return &registers.control;
    case NKV_REG_SQ_TAIL(0):
      return &registers.sq_tail;
    case NKV_REG_CQ_HEAD(0):
      return &registers.cq_head;
    case NKV_REG_WINDOW_BASE(0):
      return &registers.window_base;
    case NKV_REG_WINDOW_BYTES(0):
      return &registers.window_bytes;
    case NKV_REG_TENANT(0):
      return &registers.tenant;
    default:
      return nullptr;
  }
}

}  // namespace

Card::Card(std::unique_ptr<DeviceMemory> memory, Executor executor, uint64_t features)
    : memory_(std::move(memory)),
      executor_(std::move(executor)),
      features_(features),
      queues_(NKV_MAX_QUEUES, Queue(memory_->bytes(), executor_)) {}

uint64_t Card::read_csr(uint32_t offset) {
  if (const auto place = queue_offset(offset)) {
    Queue& queue = queues_[place->number];
    if (place->base_offset == NKV_REG_QUEUE_STATUS(0)) return queue.status();
    const uint64_t* const stored = stored_register(queue.registers(), place->base_offset);
    return stored == nullptr ? other_register(offset) : *stored;
  }
  switch (offset) {
    case NKV_REG_ID:
      return NKV_ABI_ID;
    case NKV_REG_ABI:
      return kAbi;
    case NKV_REG_FEATURES:
      return features_;
    case NKV_REG_MEMORY_BYTES:
      return memory_->bytes().size();
    case NKV_REG_LIMITS:
      return kLimits;
    case NKV_REG_CODECS:
      return kCodecs;
    case NKV_REG_TICK_HZ:
    case NKV_REG_CONTROL:
      return 0;
    case NKV_REG_DEVICE_STATUS:
      return NKV_REG_DEVICE_STATUS_READY_MASK;
    default:
      return other_register(offset);
  }
}

void Card::write_csr(uint32_t offset, uint64_t value) {
  if (const auto place = queue_offset(offset)) {
    write_queue(place->number, place->base_offset, value);
  } else if (offset == NKV_REG_CONTROL && (value & NKV_REG_CONTROL_RESET_MASK) != 0) {
    reset();
  }
}

void Card::write_queue(size_t number, uint32_t base_offset, uint64_t value) {
  Queue& queue = queues_[number];
  if (base_offset == NKV_REG_QUEUE_CONTROL(0)) {
    queue.set_enabled((value & NKV_REG_QUEUE_CONTROL_ENABLE_MASK) != 0);
  } else if (base_offset == NKV_REG_TENANT(0)) {
    queue.registers().tenant = value & NKV_REG_TENANT_NUMBER_MASK;
  } else if (uint64_t* const stored = stored_register(queue.registers(), base_offset)) {
    *stored = value;
  }
  const uint64_t posted = queue.run();
  if (posted == 0) return;
  {
    const std::lock_guard lock(wait_mutex_);
    posted_count_ += posted;
  }
  posted_.notify_all();
}

// Commands execute inside register writes, so none is ever in flight here.
void Card::reset() {
  for (Queue& queue : queues_) queue.set_enabled(false);
}

bool Card::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(wait_mutex_);
  const bool was_posted =
      posted_.wait_for(lock, timeout, [this] { return posted_count_ != reported_count_; });
  reported_count_ = posted_count_;
  return was_posted;
}

}  // namespace nearkv::model

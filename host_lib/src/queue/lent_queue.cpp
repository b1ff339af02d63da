#include "nearkv/lent_queue.hpp"

#include <algorithm>
#include <utility>

#include "edge.hpp"

namespace nearkv {

LentQueue::LentQueue(Device* device, const Options& options, std::unique_ptr<Queue> queue)
    : device_(device), options_(options), queue_(std::move(queue)) {}

Status LentQueue::open(Device* device, const Options& options, std::unique_ptr<LentQueue>* queue) {
  const std::uint64_t features = device->read_csr(NKV_REG_FEATURES);
  if (device->is_gone()) return Status::kNoDevice;
  if ((features & NKV_FEATURE_MEMORY_DOORBELLS) == 0) return Status::kUnsupported;
  const std::span<std::byte> memory = device->memory();
  const std::uint64_t enabled = device->read_csr(NKV_REG_DOORBELL_ENABLE);
  const std::uint64_t bit = std::uint64_t{1} << options.queue.index;
  const bool elsewhere =
      enabled != 0 && device->read_csr(NKV_REG_DOORBELL_BASE) != options.doorbells_at;
  if (options.queue.index >= NKV_MAX_QUEUES || (enabled & bit) != 0 || elsewhere ||
      options.doorbells_at % NKV_BURST_BYTES != 0 || options.doorbells_at > memory.size() ||
      doorbell_bytes() > memory.size() - options.doorbells_at) {
    return Status::kBadArgument;
  }
  const std::uint64_t line =
      options.doorbells_at + std::uint64_t{options.queue.index} * NKV_DOORBELL_STRIDE_BYTES;
  std::ranges::fill(memory.subspan(line, sizeof(nkv_doorbell_line)), std::byte{0});
  std::unique_ptr<Queue> opened;
  const Status status = Queue::open(device, options.queue, &opened);
  if (status != Status::kOk) return status;
  return at_edge([&] {
    queue->reset(new LentQueue(device, options, std::move(opened)));
    device->write_csr(NKV_REG_DOORBELL_BASE, options.doorbells_at);
    device->write_csr(NKV_REG_DOORBELL_ENABLE, enabled | bit);
    return Status::kOk;
  });
}

LentQueue::~LentQueue() {
  const std::uint64_t bit = std::uint64_t{1} << options_.queue.index;
  device_->write_csr(NKV_REG_DOORBELL_ENABLE, device_->read_csr(NKV_REG_DOORBELL_ENABLE) & ~bit);
}

}  // namespace nearkv

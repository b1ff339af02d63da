#include "function/bridge.hpp"

#include <algorithm>
#include <atomic>

namespace nearkv::emulator {

Bridge::Bridge(std::span<std::byte> shared, Function* function, std::uint64_t serial)
    : shared_(shared), function_(function) {
  std::ranges::fill(shared_, std::byte{0});
  nkv_card_bridge* const bridge = page();
  bridge->version = NKV_CARD_BRIDGE_VERSION;
  bridge->serial = serial;
  std::atomic_ref(bridge->magic).store(NKV_CARD_BRIDGE_MAGIC, std::memory_order_release);
}

nkv_card_bridge* Bridge::page() const { return reinterpret_cast<nkv_card_bridge*>(shared_.data()); }

bool Bridge::serve() {
  nkv_card_bridge* const bridge = page();
  const std::uint32_t request = std::atomic_ref(bridge->request).load(std::memory_order_acquire);
  if (request == answered_) return false;
  const auto address = std::atomic_ref(bridge->address).load(std::memory_order_relaxed);
  const auto bytes = std::atomic_ref(bridge->bytes).load(std::memory_order_relaxed);
  std::uint64_t value = std::atomic_ref(bridge->value).load(std::memory_order_relaxed);
  const bool is_offset = address <= UINT32_MAX;
  switch (std::atomic_ref(bridge->operation).load(std::memory_order_relaxed)) {
    case NKV_CARD_OPERATION_READ:
      value = is_offset ? function_->read(static_cast<std::uint32_t>(address)) : ~0ULL;
      break;
    case NKV_CARD_OPERATION_WRITE:
      if (is_offset) function_->write(static_cast<std::uint32_t>(address), value);
      break;
    case NKV_CARD_OPERATION_WIPE:
      function_->wipe(address, bytes);
      break;
    default:
      break;
  }
  std::atomic_ref(bridge->value).store(value, std::memory_order_relaxed);
  answered_ = request;
  std::atomic_ref(bridge->answer).store(request, std::memory_order_release);
  return true;
}

void Bridge::beat() { std::atomic_ref(page()->heartbeat).fetch_add(1, std::memory_order_relaxed); }

}  // namespace nearkv::emulator

#include "verilated/axi_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace nearkv::emulator {

namespace {

constexpr std::uint64_t kBurstBytes = sizeof(Burst);
constexpr std::uint64_t kAllStrobes = ~std::uint64_t{0};

}  // namespace

AxiMemory::AxiMemory(std::span<std::byte> bytes, MemoryTiming timing)
    : bytes_(bytes), timing_(timing), random_(timing.seed) {}

void AxiMemory::read(const Read& read) {
  ++reads_taken_;
  if (faults_.drop_read != 0 && reads_taken_ == faults_.drop_read) return;
  const std::uint64_t jitter =
      timing_.jitter_cycles == 0 ? 0 : random_() % (timing_.jitter_cycles + 1);
  reads_.push_back({.read = read, .ready_at = now_ + timing_.latency_cycles + jitter});
}

bool AxiMemory::next_beat(ReadBeat* beat) {
  // The oldest of those that are ready. Without jitter none overtakes.
  const auto last =
      timing_.jitter_cycles == 0 && !reads_.empty() ? reads_.begin() + 1 : reads_.end();
  const auto chosen = std::find_if(
      reads_.begin(), last, [this](const QueuedRead& read) { return read.ready_at <= now_; });
  if (chosen == last) return false;
  const std::uint64_t address = chosen->read.address;
  beat->id = chosen->read.id;
  beat->poison = faults_.poisoned.contains(address);
  beat->error = address > bytes_.size() - kBurstBytes;
  if (!beat->error) std::memcpy(beat->data.data(), bytes_.data() + address, kBurstBytes);
  reads_.erase(chosen);
  return true;
}

void AxiMemory::write(const Write& write) {
  writes_.push_back({.write = write, .ready_at = now_ + timing_.latency_cycles});
}

bool AxiMemory::next_answer(Answer* answer) {
  if (writes_.empty() || writes_.front().ready_at > now_) return false;
  const Write write = writes_.front().write;
  writes_.pop_front();
  answer->id = write.id;
  answer->error = write.address > bytes_.size() - kBurstBytes;
  if (!answer->error) apply(write);
  return true;
}

void AxiMemory::apply(const Write& write) {
  std::byte* const place = bytes_.data() + write.address;
  const auto* const data = reinterpret_cast<const std::byte*>(write.data.data());
  if (write.strobes != kAllStrobes) {
    for (unsigned i = 0; i < kBurstBytes; ++i) {
      if ((write.strobes >> i & 1) != 0) place[i] = data[i];
    }
    return;
  }
  // Memory takes a burst at once. Here its first word goes last: with it a completion is there.
  std::memcpy(place + sizeof(std::uint32_t), data + sizeof(std::uint32_t),
              kBurstBytes - sizeof(std::uint32_t));
  std::atomic_ref(*std::launder(reinterpret_cast<std::uint32_t*>(place)))
      .store(write.data[0], std::memory_order_release);
}

}  // namespace nearkv::emulator

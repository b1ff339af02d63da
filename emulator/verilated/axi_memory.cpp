#include "verilated/axi_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace nearkv::emulator {

namespace {

constexpr std::uint64_t kBurstBytes = sizeof(Burst);
constexpr std::uint64_t kAllStrobes = ~std::uint64_t{0};

std::atomic_ref<std::uint32_t> first_word(std::byte* place) {
  return std::atomic_ref(*std::launder(reinterpret_cast<std::uint32_t*>(place)));
}

}  // namespace

AxiMemory::AxiMemory(std::span<std::byte> bytes, MemoryTiming timing,
                     std::unique_ptr<AnswerTimes> times, SliceMap map)
    : bytes_(bytes),
      timing_(timing),
      map_(map),
      random_(timing.seed + map.slice),
      times_(std::move(times)) {}

std::uint64_t AxiMemory::answer_at() {
  const std::uint64_t jitter =
      timing_.jitter_cycles == 0 ? 0 : random_() % (timing_.jitter_cycles + 1);
  return now_ + timing_.latency_cycles + jitter;
}

void AxiMemory::read(const Read& read) {
  ++reads_taken_;
  if (faults_.drop_read != 0 && reads_taken_ == faults_.drop_read) return;
  reads_.push_back({.read = read, .number = reads_taken_, .ready_at = answer_at()});
  if (times_ != nullptr) times_->read(reads_taken_, read.address);
}

std::deque<AxiMemory::QueuedRead>::iterator AxiMemory::answered_read() {
  if (times_ != nullptr) {
    const std::optional<std::uint64_t> number = times_->answered_read();
    return number ? std::ranges::find(reads_, *number, &QueuedRead::number) : reads_.end();
  }
  // The oldest of those that are ready. Without jitter none overtakes.
  const auto last =
      timing_.jitter_cycles == 0 && !reads_.empty() ? reads_.begin() + 1 : reads_.end();
  const auto chosen = std::find_if(
      reads_.begin(), last, [this](const QueuedRead& read) { return read.ready_at <= now_; });
  return chosen == last ? reads_.end() : chosen;
}

bool AxiMemory::next_beat(ReadBeat* beat) {
  const auto chosen = answered_read();
  if (chosen == reads_.end()) return false;
  std::byte* const place = place_of(chosen->read.address);
  beat->id = chosen->read.id;
  beat->poison = faults_.poisoned.contains(device_address(chosen->read.address));
  beat->error = place == nullptr;
  if (!beat->error) {
    // What the host writes last is looked at first: with it the rest is there.
    beat->data[0] = first_word(place).load(std::memory_order_acquire);
    std::memcpy(beat->data.data() + 1, place + sizeof(std::uint32_t),
                kBurstBytes - sizeof(std::uint32_t));
  }
  reads_.erase(chosen);
  return true;
}

void AxiMemory::write(const Write& write) {
  ++writes_taken_;
  if (faults_.drop_write != 0 && writes_taken_ >= faults_.drop_write &&
      writes_taken_ - faults_.drop_write < faults_.drop_writes) {
    return;
  }
  writes_.push_back({.write = write, .number = writes_taken_, .ready_at = answer_at()});
  if (times_ != nullptr) times_->write(writes_taken_, write.address);
}

std::deque<AxiMemory::QueuedWrite>::iterator AxiMemory::answered_write() {
  if (times_ != nullptr) {
    const std::optional<std::uint64_t> number = times_->answered_write();
    return number ? std::ranges::find(writes_, *number, &QueuedWrite::number) : writes_.end();
  }
  // Those of one id are done and answered in turn.
  return std::ranges::find_if(writes_, [this](const QueuedWrite& write) {
    const auto same = [&](const QueuedWrite& other) { return other.write.id == write.write.id; };
    return write.ready_at <= now_ && &*std::ranges::find_if(writes_, same) == &write;
  });
}

bool AxiMemory::next_answer(Answer* answer) {
  const auto chosen = answered_write();
  if (chosen == writes_.end()) return false;
  const Write write = chosen->write;
  const bool is_refused = faults_.refuse_write != 0 && chosen->number == faults_.refuse_write;
  writes_.erase(chosen);
  answer->id = write.id;
  answer->error = is_refused || place_of(write.address) == nullptr;
  if (!answer->error) apply(write);
  return true;
}

void AxiMemory::advance() {
  if (times_ != nullptr) times_->advance();
  ++now_;
}

std::byte* AxiMemory::place_of(std::uint64_t local) const {
  const std::uint64_t address = device_address(local);
  return address < bytes_.size() ? bytes_.data() + address : nullptr;
}

void AxiMemory::apply(const Write& write) {
  std::byte* const place = place_of(write.address);
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
  first_word(place).store(write.data[0], std::memory_order_release);
}

}  // namespace nearkv::emulator

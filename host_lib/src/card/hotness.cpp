#include "card/hotness.hpp"

#include <linux/perf_event.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace nearkv {
namespace {

constexpr std::uint8_t kReadsAndWrites = 6;
constexpr std::uint64_t kLongestEpochValue = 4095;
constexpr std::size_t kRecordPages = 8;
constexpr std::size_t kAuxBytes = 64 << 10;

std::span<std::byte> map(const FileDescriptor& event, std::size_t at, std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(),
                             static_cast<off_t>(at));
  if (place == MAP_FAILED) return {};
  return {static_cast<std::byte*>(place), bytes};
}

/// A length that a monitor can have: up to 4,095 times 100 us, 1 ms, 10 ms, 100 ms or 1 s.
bool set_epoch(std::chrono::microseconds epoch, nkv_card_hotness* wanted) {
  std::uint64_t unit_us = 100;
  const auto us = static_cast<std::uint64_t>(epoch.count());
  for (std::uint8_t scale = 1; scale <= 5; ++scale, unit_us *= 10) {
    if (us == 0 || us % unit_us != 0 || us / unit_us > kLongestEpochValue) continue;
    wanted->epoch_scale = scale;
    wanted->epoch_value = static_cast<std::uint16_t>(us / unit_us);
    return true;
  }
  return false;
}

Status bad(const std::string& pmu, const char* what, std::string* reason) {
  *reason = pmu + ": " + what;
  return Status::kBadArgument;
}

}  // namespace

HotnessWatch::~HotnessWatch() {
  if (!aux_.empty()) ::munmap(aux_.data(), aux_.size());
  if (!ring_.empty()) ::munmap(ring_.data(), ring_.size());
}

Status HotnessWatch::open(const std::string& card, const HotnessOptions& options,
                          std::string* reason) {
  pmu_ = card + "_hotness";
  nkv_card_hotness wanted{};
  wanted.monitor = static_cast<std::uint8_t>(options.monitor);
  wanted.track = kReadsAndWrites;
  wanted.threshold = options.threshold;
  if (!std::has_single_bit(options.unit_bytes)) {
    return bad(pmu_, "a unit's bytes are a power of two", reason);
  }
  wanted.unit_log2 = static_cast<std::uint8_t>(std::countr_zero(options.unit_bytes));
  if (!set_epoch(options.epoch, &wanted)) {
    return bad(pmu_, "an epoch is 1 to 4095 times 100 us, 1 ms, 10 ms, 100 ms or 1 s", reason);
  }
  const std::uint64_t unit_sizes = read_pmu_number(pmu_, "caps/unit_bytes").value_or(0);
  if (unit_sizes != 0 && (unit_sizes & options.unit_bytes) == 0) {
    std::ostringstream text;
    text << pmu_ << ": a unit has";
    for (std::uint64_t rest = unit_sizes; rest != 0; rest &= rest - 1) {
      text << ' ' << (rest & -rest);
    }
    *reason = text.str() + " bytes";
    return Status::kBadArgument;
  }
  const auto config = std::bit_cast<PerfConfig>(wanted);
  const Status status = open_perf_event(pmu_, config, &event_, reason);
  if (status == Status::kBadArgument) *reason += "; a lower threshold may do";
  if (status != Status::kOk) return status;
  unit_bytes_ = options.unit_bytes;
  counter_bits_ = static_cast<unsigned>(read_pmu_number(pmu_, "caps/counter_bits").value_or(16));
  const auto page = static_cast<std::size_t>(::getpagesize());
  ring_ = map(event_, 0, (1 + kRecordPages) * page);
  if (!ring_.empty()) {
    auto* const control = reinterpret_cast<perf_event_mmap_page*>(ring_.data());
    control->aux_offset = ring_.size();
    control->aux_size = kAuxBytes;
    aux_ = map(event_, control->aux_offset, control->aux_size);
  }
  if (aux_.empty()) {
    *reason = pmu_ + ": no memory for its entries: " + std::strerror(errno);
    return Status::kOutOfMemory;
  }
  // Not before: mapping stops an event that counts.
  return enable_perf_event(event_, reason);
}

void HotnessWatch::take_records() {
  auto* const control = reinterpret_cast<perf_event_mmap_page*>(ring_.data());
  const auto records = ring_.subspan(control->data_offset, control->data_size);
  const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
  std::uint64_t tail = control->data_tail;
  const auto read = [&records](std::uint64_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, records.data() + at % records.size(), sizeof(word));
    return word;
  };
  // Records are words, so that only whole ones wrap around.
  while (tail < head) {
    const auto header = std::bit_cast<perf_event_header>(read(tail));
    constexpr std::uint64_t kAuxFlags = sizeof(header) + 2 * sizeof(std::uint64_t);
    if (header.type == PERF_RECORD_LOST ||
        (header.type == PERF_RECORD_AUX && (read(tail + kAuxFlags) & PERF_AUX_FLAG_PARTIAL))) {
      has_lost_ = true;
    }
    tail += header.size;
  }
  std::atomic_ref(control->data_tail).store(tail, std::memory_order_release);
}

Status HotnessWatch::take(std::vector<HotUnit>* units, std::string* reason) {
  auto* const control = reinterpret_cast<perf_event_mmap_page*>(ring_.data());
  const std::uint64_t head = std::atomic_ref(control->aux_head).load(std::memory_order_acquire);
  for (std::uint64_t at = control->aux_tail; at != head; at += sizeof(std::uint64_t)) {
    std::uint64_t entry = 0;
    std::memcpy(&entry, aux_.data() + at % aux_.size(), sizeof(entry));
    const std::uint64_t unit = entry >> counter_bits_;
    units->push_back({.address = unit * unit_bytes_, .count = entry ^ (unit << counter_bits_)});
  }
  std::atomic_ref(control->aux_tail).store(head, std::memory_order_release);
  take_records();
  if (read_pmu_number(pmu_, "caps/entries")) return Status::kOk;
  *reason = pmu_ + ": the card has gone";
  return Status::kNoDevice;
}

}  // namespace nearkv

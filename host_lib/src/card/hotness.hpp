// Which parts of a card's memory are used most, as its hotness monitors tell perf (CXL CHMU).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "card/perf_event.hpp"
#include "nearkv/status.hpp"
#include "nkv_card.h"

namespace nearkv {

/// What is watched, and from when on it is hot.
struct HotnessOptions {
  nkv_card_monitor monitor = NKV_CARD_MONITOR_NEAR;
  std::uint64_t unit_bytes = 4096;           ///< A power of two.
  std::uint32_t threshold = 64;              ///< Accesses in an epoch.
  std::chrono::microseconds epoch{100'000};  ///< By the card's clock; then counts begin anew.
};

/// An entry of a hot list: a unit that came to the threshold in an epoch.
struct HotUnit {
  std::uint64_t address = 0;  ///< Of its first byte, in device memory.
  std::uint64_t count = 0;    ///< Of accesses, when it was listed. May be too high, never too low.
};

/// Has a monitor for itself and takes its hot list. Not for several threads.
class HotnessWatch {
 public:
  HotnessWatch() = default;
  HotnessWatch(const HotnessWatch&) = delete;
  HotnessWatch& operator=(const HotnessWatch&) = delete;
  ~HotnessWatch();

  /// From its return on accesses are counted. `card` as "nearkv0". As open_perf_event(); kBusy:
  /// somebody else has the monitor.
  Status open(const std::string& card, const HotnessOptions& options, std::string* reason);

  /// Adds units that were listed since the last call; an access shows within about
  /// CARD_LAG_MS. kNoDevice: the card has gone.
  Status take(std::vector<HotUnit>* units, std::string* reason);

  /// Entries were lost because nobody took them in time.
  [[nodiscard]] bool has_lost() const { return has_lost_; }

 private:
  void take_records();

  std::string pmu_;
  std::uint64_t unit_bytes_ = 0;
  unsigned counter_bits_ = 0;
  FileDescriptor event_;
  std::span<std::byte> ring_;  ///< Perf's page, then records that say what came.
  std::span<std::byte> aux_;   ///< Entries.
  bool has_lost_ = false;
};

}  // namespace nearkv

// What a host does to device memory while the engine works: random reads and writes, checked and
// timed.
#ifndef NEARKV_EMULATOR_HOST_TRAFFIC_HPP_
#define NEARKV_EMULATOR_HOST_TRAFFIC_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "verilated/axi_memory.hpp"

namespace nearkv::emulator {

struct HostLoad {
  unsigned read_percent = 0;  ///< Of cycles, those that bring a read; a quarter as many a write.
  std::uint64_t seed = 1;
};

/// What came of it, in the last kHostRecordBytes of device memory.
struct HostRecord {
  std::uint64_t wrong;  ///< Answers other than what was written before, or errors.
  std::uint64_t reads;
  /// Reads by cycles from when they were wanted to their answer; the last counts all beyond too.
  std::array<std::uint32_t, 1020> cycles;
};
inline constexpr std::size_t kHostRecordBytes = 4096;
static_assert(sizeof(HostRecord) == kHostRecordBytes);

/// Half of the reads go anywhere. The others, and all writes, go to lines that are the host's
/// alone: kHostBytes at the end of device memory, its record included.
inline constexpr std::size_t kHostBytes = 65536;

class HostTraffic {
 public:
  struct Access {
    std::uint16_t id;
    std::uint64_t address;
    Burst data;  ///< Of a write.
  };

  /// At most `ids` reads and as many writes are under way.
  HostTraffic(std::span<std::byte> memory, HostLoad load, unsigned ids);

  /// What the host offers in this cycle; none: null.
  [[nodiscard]] const Access* next_read() const;
  [[nodiscard]] const Access* next_write() const;
  void read_taken();
  void write_taken();
  void read_answered(std::uint16_t id, const Burst& data, bool failed);
  void write_answered(std::uint16_t id, bool failed);
  /// The next cycle begins.
  void advance();

 private:
  static constexpr std::size_t kLines = (kHostBytes - kHostRecordBytes) / sizeof(Burst);
  static constexpr std::size_t kMostWaiting = 512;
  static constexpr std::size_t kNoLine = kLines;
  struct Line {
    Burst data{};
    unsigned reads = 0;       // Under way.
    bool is_written = false;  // Not while reads are, and none is then.
  };
  struct Read {
    std::size_t line = kNoLine;
    std::uint64_t wanted_at = 0;
  };

  void want_read();
  void want_write();
  [[nodiscard]] bool happens(unsigned percent, unsigned of) { return random_() % of < percent; }

  std::span<std::byte> memory_;
  HostLoad load_;
  HostRecord* record_;
  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::array<Line, kLines> lines_;
  std::vector<std::optional<Read>> reads_;          // Those under way, by id.
  std::vector<std::optional<std::size_t>> writes_;  // Their lines, likewise.
  std::uint16_t next_read_id_ = 0;
  std::uint16_t next_write_id_ = 0;
  std::deque<Access> waiting_reads_;
  std::deque<Access> waiting_writes_;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_HOST_TRAFFIC_HPP_

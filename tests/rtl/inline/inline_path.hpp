// nkv_inline between what a CXL IP, engines and memory controllers do: the host's and the
// engines' accesses are queued here, memory answers them late and in any order, and every answer is
// held to what was written before.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "Vnkv_inline.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kSlices = NEARKV_SLICES;
inline constexpr unsigned kPorts = NEARKV_PORTS;  // Near-data's.
inline constexpr std::uint64_t kBurstBytes = NKV_BURST_BYTES;
/// Memory answers with an error from here on.
inline constexpr std::uint64_t kMemoryEnd = std::uint64_t{1} << 50U;
/// What the slices let the host have in flight, reads and writes each.
inline constexpr unsigned kHostCredits = 64;

inline constexpr unsigned kNoLimit = 1023;

/// The vendor's CXL IP deals lines to slices in turn.
inline unsigned slice_of(std::uint64_t address) {
  return static_cast<unsigned>(address / kBurstBytes % kSlices);
}
/// Where memory has a line for that.
inline std::uint64_t local_of(std::uint64_t address) {
  return address / (kBurstBytes * kSlices) * kBurstBytes + address % kBurstBytes;
}
/// The n-th line of those in a slice.
inline std::uint64_t line_in_slice(unsigned slice, std::uint64_t n) {
  return (n * kSlices + slice) * kBurstBytes;
}

struct Line {
  std::array<std::uint32_t, 16> data{};
  bool poison = false;
  bool operator==(const Line&) const = default;
};

Line random_line(test::Random& random);

/// How willing everybody is, of 8, and how late memory answers.
struct Manner {
  unsigned host_pace = 8;    ///< Offers what is queued,
  unsigned answer_pace = 8;  ///< and takes answers.
  unsigned near_pace = 8;
  unsigned memory_pace = 8;   ///< Takes accesses.
  unsigned latency = 20;      ///< From then to the answer,
  unsigned jitter = 0;        ///< and at random up to so many cycles more.
  unsigned serve_pace = 8;    ///< Answers reads in so many of 8 cycles,
  unsigned pause_every = 0;   ///< and in every so many cycles
  unsigned pause_cycles = 0;  ///< rests for so long, as a refresh does.
};

class InlinePath {
 public:
  explicit InlinePath(std::uint64_t seed = 1);

  /// Everybody forgets what was under way; memory's contents stay.
  void reset();
  void set_manner(const Manner& manner) { manner_ = manner; }
  [[nodiscard]] Vnkv_inline& ports() { return *rtl_; }

  // Accesses, to be made in this order on each side. Hosts do not touch a line that an access under
  // way would conflict with; false if this one does.
  bool host_read(std::uint64_t address);
  bool host_write(std::uint64_t address, const Line& line, std::uint64_t strobes);
  bool near_read(std::uint64_t address, unsigned beats, unsigned port = 0);
  bool near_write(std::uint64_t address, const Line& line, unsigned port = 0);

  /// One cycle: everybody offers and takes, answers are checked.
  void cycle();
  void cycles(unsigned count);
  /// Until nothing is under way; false after `limit` cycles.
  [[nodiscard]] bool drain(unsigned limit = 20000);

  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] std::size_t host_reads_queued(unsigned slice) const;
  [[nodiscard]] std::size_t near_reads_queued(unsigned port = 0) const {
    return engines_.at(port).reads.size();
  }

  struct Taken {
    std::uint64_t at;
    bool is_near;
    unsigned port;  ///< Near-data's.
  };
  struct Doorbell {
    unsigned index;
    std::optional<std::uint16_t> tail;
    std::optional<std::uint16_t> head;
    bool operator==(const Doorbell&) const = default;
  };
  // What happened since clear_records().
  std::array<std::vector<Taken>, kSlices> reads_taken;  ///< By memory.
  std::array<std::vector<Taken>, kSlices> writes_taken;
  std::array<std::vector<Doorbell>, kSlices> doorbells;
  std::vector<unsigned> host_read_cycles;  ///< From the first offer to the answer.
  std::vector<unsigned> host_write_cycles;
  std::uint64_t near_answers = 0;                    ///< Beats.
  std::uint64_t near_settled = 0;                    ///< Writes.
  std::array<std::uint64_t, kPorts> port_answers{};  ///< Beats of each port.
  std::uint64_t poisoned_answers = 0;
  std::uint64_t error_answers = 0;
  void clear_records();

 private:
  struct Access {
    std::uint16_t id = 0;
    std::uint64_t address = 0;
    unsigned beats = 1;
    Line line;
    std::uint64_t strobes = ~std::uint64_t{0};
  };
  struct Expected {
    std::uint64_t address;
    Line line;
    std::uint64_t offered_at;
    unsigned slice;
  };
  /// A queue whose front is offered, once it is, until it is taken.
  struct Offers {
    std::deque<Access> queue;
    bool is_offered = false;
    [[nodiscard]] bool offers(test::Random& random, unsigned pace);
    Access take();
    void clear() { *this = {}; }
  };
  struct HostPort {
    Offers reads;
    Offers addresses;
    Offers data;
  };
  /// A port of near-data. The places of its reads' beats go round.
  struct EnginePort {
    std::deque<Access> reads;
    bool read_is_offered = false;
    Offers writes;
    std::uint16_t next_place = 0;
  };
  struct MemoryRead {
    bool is_near;
    std::uint16_t id;
    std::uint64_t address;
    std::uint64_t ready_at;
  };
  struct MemoryWrite {
    bool is_near;
    std::uint16_t id;
    std::uint64_t address;
    std::optional<Access> data;
    std::uint64_t ready_at;
  };
  struct Memory {
    std::map<std::uint64_t, Line> lines;  // By local address.
    std::deque<MemoryRead> reads;
    std::deque<MemoryWrite> writes;  // Addresses that were taken, and their data,
    std::deque<Access> early_data;   // which may come first.
  };
  /// Valid and what it is valid for must hold until taken.
  struct Held {
    bool waits = false;
    std::vector<std::uint64_t> payload;
  };

  void drive_host(unsigned slice);
  void drive_near(unsigned port);
  void drive_memory(unsigned slice);
  [[nodiscard]] bool serves() const;
  void sample_host(unsigned slice);
  void sample_near(unsigned port);
  void sample_memory(unsigned slice);
  void check_holds(unsigned slice);
  void expect_held(Held& held, bool valid, bool ready, std::vector<std::uint64_t> payload);
  void check_read(std::map<std::uint16_t, Expected>& expected, std::uint16_t id, const Line& line,
                  bool error);
  void check_write(std::map<std::uint16_t, Expected>& expected, std::uint16_t id, bool error);
  void take_data(Memory& memory, const Access& data);
  [[nodiscard]] std::uint64_t answer_time();
  [[nodiscard]] std::uint16_t free_id(const std::map<std::uint16_t, Expected>& used,
                                      std::optional<unsigned> port = {});
  [[nodiscard]] Line& reference(std::uint64_t address) { return reference_[address]; }

  Simulation<Vnkv_inline> rtl_;
  test::Random random_;
  Manner manner_;
  std::uint64_t now_ = 0;
  std::map<std::uint64_t, Line> reference_;  // By device address.
  std::map<std::uint64_t, unsigned> being_read_;
  std::set<std::uint64_t> being_written_;
  std::array<HostPort, kSlices> hosts_;
  std::array<Memory, kSlices> memories_;
  std::array<EnginePort, kPorts> engines_;
  std::map<std::uint16_t, Expected> host_reads_pending_, host_writes_pending_;
  std::map<std::uint16_t, Expected> near_reads_pending_, near_writes_pending_;
  std::array<std::array<Held, 5>, kSlices> held_;
};

}  // namespace nearkv::rtl_test

// nkv_scan under a clock, driven as the engine drives it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "Vnkv_scan.h"
#include "scan_pages.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

/// What holds for a command.
struct ScanSettings {
  unsigned rows = kRows;
  unsigned planes = 2;
  bool statistical = false;
  unsigned z = 64;
};

/// How willing the surroundings are, of 8, and how far digests run ahead of their planes.
struct ScanPace {
  unsigned bursts = 8;
  unsigned records = 8;
  unsigned chosen = 8;
  unsigned digests_ahead = 2;
  unsigned scratch = 8;         ///< Writes there, and what comes back.
  unsigned scratch_cycles = 3;  ///< Until a write is there.
};

class ScanStage {
 public:
  explicit ScanStage(std::uint64_t seed) : random_(test::case_random(seed)) { module_.reset(); }

  void set_pace(const ScanPace& pace) { pace_ = pace; }

  /// OpStart, and the query.
  void start(const ScanList& list, const ScanSettings& settings);

  /// OpScan over the whole list.
  void scan();

  /// OpThreshold, then T of every row.
  std::array<int, kRows> thresholds(unsigned count);

  /// OpBest.
  model::TokenSet best(const model::TokenSet& among);

  /// OpFreeze, then tau16 of every row; INT64_MIN: there are fewer seeds.
  std::array<int, kRows> freeze(const std::array<std::int64_t, kRows>& tau);

  /// OpAlive.
  model::TokenSet alive(const model::TokenSet& among, unsigned planes);

  /// OpRefine over the pages that hold alive tokens.
  void refine(const model::TokenSet& alive, unsigned plane);

  /// A midpoint, from the memory.
  std::int16_t midpoint(std::size_t row, std::size_t page, std::uint32_t token);

  [[nodiscard]] std::int64_t reference(std::size_t row);
  [[nodiscard]] int shift(std::size_t row);

  /// The highest and the lowest midpoint of a row that count for a tail's reference.
  [[nodiscard]] std::pair<int, int> range(std::size_t row);

  /// Cycles of the last operation, and bursts that it took.
  [[nodiscard]] std::uint64_t op_cycles() const { return op_cycles_; }
  [[nodiscard]] std::uint64_t op_bursts() const { return op_bursts_; }
  [[nodiscard]] std::uint64_t cycles() const { return module_.cycles(); }

  void reset() { module_.reset(); }
  void abort();
  /// Begins a scan and leaves it after some cycles.
  void begin_scan_only(unsigned cycles);

 private:
  struct Record {
    std::uint32_t page;
    model::TokenMask tokens;
    std::int16_t step_exponent;
    bool first;
  };
  struct Burst {
    std::array<std::uint32_t, 16> data;
    bool is_plane;
    unsigned plane;
    unsigned quad;
    bool last;
  };

  void issue(unsigned op, unsigned pages, unsigned planes, unsigned count);
  void finish();
  void cycle();
  void queue_scan();
  void push_digest(std::size_t page);
  void push_granules(std::size_t page, model::TokenMask alive, unsigned plane);
  void fill(std::uint32_t page, unsigned quad);
  void offer_midpoints();
  [[nodiscard]] bool has_midpoints(std::uint32_t page) const;
  void take_spilled();
  void over(std::uint32_t page);
  void push_array(std::size_t page, nkv_page_array array, std::size_t first, std::size_t bursts,
                  const Burst& tag);
  model::TokenSet choose(unsigned op, const model::TokenSet& among, unsigned planes);

  Simulation<Vnkv_scan> module_;
  test::Random random_;
  ScanPace pace_;
  const ScanList* list_ = nullptr;
  ScanSettings settings_;
  std::deque<Record> records_;
  std::deque<Burst> bursts_;
  std::deque<std::pair<std::uint32_t, model::TokenMask>> to_choose_, chosen_;
  std::optional<std::pair<std::size_t, std::uint32_t>> shown_;  ///< Page and word of midpoint_o.
  // Midpoints that left the chip: 4 tokens of all rows at an address, those on their way there,
  // pages that are to come back, and those that lie in frames.
  struct Spilled {
    std::uint64_t address;
    std::array<std::uint32_t, 16> data;
    std::uint64_t there_at;
  };
  std::map<std::uint64_t, std::array<std::uint32_t, 16>> scratch_;
  std::deque<Spilled> spilled_;
  std::deque<std::uint32_t> to_load_;
  unsigned loaded_quads_ = 0;
  std::map<std::uint32_t, std::uint32_t> in_frame_;  ///< By frame, the page.
  std::set<std::uint32_t> loaded_;
  std::uint64_t op_start_ = 0;
  std::uint64_t op_cycles_ = 0;
  std::uint64_t op_bursts_ = 0;
};

}  // namespace nearkv::rtl_test

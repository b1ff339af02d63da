// nkv_append over a memory of its own, beside the golden model over a copy of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "Vnkv_append_bench.h"
#include "commands.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"
#include "verilated/axi_memory.hpp"

namespace nearkv::rtl_test {

/// Forms and sizes of the pages of an APPEND, and how its source rows lie.
struct AppendShape {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_RAW;
  std::uint8_t v_form = NKV_ROW_FORM_RAW;
  std::uint16_t head_dim = 128;
  std::uint16_t value_dim = 128;
  bool key_scales = false;
  unsigned gap_bytes = 0;     ///< Between rows.
  unsigned skew_bytes = 0;    ///< Of the first row, to the start of a burst.
  bool any_patterns = false;  ///< Elements of any value at all; else normal numbers.

  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::uint32_t page_bytes() const;
};

/// Any shape that heads of at most 128 channels can have.
AppendShape random_append_shape(test::Random& random);

/// How willing the memory's port is, of 8.
struct AppendPace {
  unsigned reads = 8;
  unsigned writes = 8;
};

class AppendUnit : private Simulation<Vnkv_append_bench> {
 public:
  static constexpr std::uint64_t kWindowBase = 1 << 16;
  static constexpr std::uint64_t kWindowBytes = 4 << 20;
  static constexpr std::uint16_t kTenant = 0x1234;

  explicit AppendUnit(emulator::MemoryTiming timing = {.latency_cycles = 20});

  void set_pace(const AppendPace& pace) { pace_ = pace; }
  void set_faults(emulator::MemoryFaults faults) { axi_.set_faults(std::move(faults)); }

  /// Both memories: garbage, with random rows and a list of places for the command that is
  /// returned.
  nkv_append_command prepare(const AppendShape& shape, std::uint32_t pages, test::Random& random);
  /// Room in the window that nothing else has.
  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment);
  /// Writes into both memories.
  template <typename T>
  void put(std::uint64_t address, const T& value) {
    put_bytes(address, std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::uint64_t address, std::span<const std::byte> bytes);

  /// Both take the command; the unit's outcome.
  model::Outcome run(const nkv_append_command& command);
  [[nodiscard]] const model::Outcome& models_outcome() const { return models_outcome_; }

  /// The unit alone takes it, and is left where it stands after some cycles.
  void begin(const nkv_append_command& command, unsigned cycles);
  /// What is under way is forgotten: CONTROL.RESET, or all of reset. Memory comes to rest.
  void clear();
  void power_up();

  [[nodiscard]] std::span<std::byte> window();
  [[nodiscard]] std::span<std::byte> models_window();

  /// Of the last command.
  [[nodiscard]] std::uint64_t run_cycles() const { return run_cycles_; }
  [[nodiscard]] std::uint64_t bursts_read() const { return bursts_read_; }
  [[nodiscard]] std::uint64_t bursts_written() const { return bursts_written_; }

 private:
  void cycle();
  void start(const nkv_append_command& command);
  void settle_memory();

  std::vector<std::byte> bytes_;
  std::vector<std::byte> model_bytes_;
  /// One burst of a read.
  struct Access {
    std::uint16_t id;
    std::uint64_t address;
    bool last;
    std::uint16_t number;  ///< Its id in memory.
    std::optional<emulator::AxiMemory::ReadBeat> beat;
  };
  bool show_beat();

  emulator::AxiMemory axi_;
  std::deque<Access> accesses_;   // Of reads that were taken.
  std::deque<Access> under_way_;  // That memory was asked for.
  std::uint16_t next_access_ = 0;
  AppendPace pace_;
  test::Random random_;
  model::Outcome models_outcome_;
  std::uint64_t next_ = 0;
  std::uint64_t run_cycles_ = 0;
  std::uint64_t bursts_read_ = 0;
  std::uint64_t bursts_written_ = 0;
};

/// The same completion, and the same memory to the byte.
void expect_models(AppendUnit& unit, const model::Outcome& outcome);

}  // namespace nearkv::rtl_test

// A unit that carries out commands, over a memory of its own, beside the golden model over a copy.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "commands.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"
#include "verilated/axi_memory.hpp"

namespace nearkv::rtl_test {

/// Memory that answers at once, late, and out of order.
inline constexpr emulator::MemoryTiming kTimings[] = {
    {.latency_cycles = 2, .jitter_cycles = 0, .seed = 1},
    {.latency_cycles = 60, .jitter_cycles = 0, .seed = 1},
    {.latency_cycles = 7, .jitter_cycles = 90, .seed = 3}};

/// How willing the memory's port is, of 8.
struct PortPace {
  unsigned reads = 8;
  unsigned writes = 8;
};

/// `Bench` is a unit with its way to memory: a command, a domain and an outcome, and one AXI port.
template <typename Bench>
class CommandUnit : private Simulation<Bench> {
 public:
  static constexpr std::uint64_t kWindowBase = 1 << 16;
  static constexpr std::uint64_t kWindowBytes = 4 << 20;
  static constexpr std::uint16_t kTenant = 0x1234;

  explicit CommandUnit(emulator::MemoryTiming timing = {.latency_cycles = 20})
      : bytes_(kWindowBase + kWindowBytes),
        model_bytes_(bytes_.size()),
        axi_(bytes_, timing),
        random_(test::case_random(77)) {
    power_up();
  }

  void set_pace(const PortPace& pace) { pace_ = pace; }
  void set_faults(emulator::MemoryFaults faults) { axi_.set_faults(std::move(faults)); }

  /// Both memories: the same garbage, and nothing allocated.
  void fill_with_garbage(test::Random& random) {
    for (std::size_t at = 0; at < bytes_.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t garbage = random();
      std::memcpy(&bytes_[at], &garbage, sizeof(garbage));
    }
    model_bytes_ = bytes_;
    next_ = 4096;
  }

  /// Room in the window that nothing else has.
  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t address = (next_ + alignment - 1) / alignment * alignment;
    next_ = address + bytes;
    EXPECT_LE(next_, kWindowBytes);
    return address;
  }

  /// Writes into both memories.
  template <typename T>
  void put(std::uint64_t address, const T& value) {
    put_bytes(address, std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::uint64_t address, std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, window().subspan(address).begin());
    std::ranges::copy(bytes, models_window().subspan(address).begin());
  }

  /// The unit's memory becomes what the model has made of its own.
  void adopt_models_memory() { bytes_ = model_bytes_; }

  /// Both take the command, the model by `execute`; the unit's outcome.
  template <typename Command, typename Execute>
  model::Outcome run(const Command& command, const Execute& execute) {
    models_outcome_ = execute(models_domain(), command);
    start(command);
    return finish();
  }

  /// What was begun goes on to its end.
  model::Outcome finish() {
    while (!bench().done_o && run_cycles_ < kMostCycles) cycle();
    EXPECT_TRUE(bench().done_o) << "no outcome";
    model::Outcome outcome;
    outcome.verdict = {static_cast<std::uint8_t>(bench().outcome_verdict_status_o),
                       bench().outcome_verdict_detail_o};
    outcome.count = bench().outcome_count_o;
    const std::uint64_t cycles = run_cycles_;
    while (!bench().writes_done_o && run_cycles_ < 2 * kMostCycles) cycle();
    run_cycles_ = cycles;
    return outcome;
  }
  [[nodiscard]] const model::Outcome& models_outcome() const { return models_outcome_; }

  /// The unit alone takes it, and is left where it stands after some cycles.
  template <typename Command>
  void begin(const Command& command, unsigned cycles) {
    start(command);
    while (run_cycles_ < cycles && !bench().done_o) cycle();
  }

  /// What is under way is forgotten: by CONTROL.RESET, after which memory comes to rest, or by all
  /// of reset, which lasts until memory is at rest. So no answer comes that was not asked for.
  void clear() {
    bench().clear_i = 1;
    cycle();
    bench().clear_i = 0;
    settle_memory();
  }
  void power_up() {
    bench().rst_ni = 0;
    settle_memory();
    Simulation<Bench>::reset();
  }

  [[nodiscard]] std::span<std::byte> window() { return std::span(bytes_).subspan(kWindowBase); }
  [[nodiscard]] std::span<std::byte> models_window() {
    return std::span(model_bytes_).subspan(kWindowBase);
  }
  template <typename T>
  [[nodiscard]] T get(std::uint64_t address) {
    T value{};
    std::memcpy(&value, &window()[address], sizeof(value));
    return value;
  }
  [[nodiscard]] model::Domain models_domain() {
    return {.window = model::Window(models_window()), .tenant = kTenant};
  }

  /// Of the last command.
  [[nodiscard]] std::uint64_t run_cycles() const { return run_cycles_; }
  [[nodiscard]] std::uint64_t bursts_read() const { return bursts_read_; }
  [[nodiscard]] std::uint64_t bursts_written() const { return bursts_written_; }

 private:
  static constexpr std::uint64_t kMostCycles = 400000;

  /// One burst of a read.
  struct Access {
    std::uint16_t id;
    std::uint64_t address;
    bool last;
    std::uint16_t number;  ///< Its id in memory.
    std::optional<emulator::AxiMemory::ReadBeat> beat;
  };

  Bench& bench() { return **this; }

  template <typename Command>
  void start(const Command& command) {
    run_cycles_ = bursts_read_ = bursts_written_ = 0;
    std::memcpy(bench().command_i.data(), &command, sizeof(command));
    bench().domain_window_base_i = kWindowBase;
    bench().domain_window_bytes_i = kWindowBytes;
    bench().domain_tenant_i = kTenant;
    bench().start_i = 1;
    cycle();
    bench().start_i = 0;
  }

  void settle_memory() {
    constexpr unsigned kEnough = 400;
    for (unsigned i = 0; i < kEnough; ++i) cycle();
  }

  bool show_beat() {
    emulator::AxiMemory::ReadBeat beat{};
    if (axi_.next_beat(&beat)) {
      std::ranges::find(under_way_, beat.id, &Access::number)->beat = beat;
    }
    // Of each read in order, of all of them as they come.
    std::set<std::uint16_t> waiting;
    for (auto access = under_way_.begin(); access != under_way_.end(); ++access) {
      if (access->beat && !waiting.contains(access->id)) {
        bench().r_id_i = access->id;
        bench().r_last_i = access->last;
        bench().r_poison_i = access->beat->poison;
        std::ranges::copy(access->beat->data, bench().r_data_i.data());
        under_way_.erase(access);
        ++bursts_read_;
        return true;
      }
      waiting.insert(access->id);
    }
    return false;
  }

  void cycle() {
    Bench& port = bench();
    port.r_valid_i = show_beat();
    emulator::AxiMemory::Answer answer{};
    port.b_valid_i = axi_.next_answer(&answer);
    if (port.b_valid_i != 0) port.b_id_i = answer.id;
    // The inline path cuts reads into accesses of a burst, one per cycle.
    if (!accesses_.empty() && axi_.takes_reads()) {
      axi_.read({.id = next_access_, .address = accesses_.front().address});
      under_way_.push_back(accesses_.front());
      under_way_.back().number = next_access_++;
      accesses_.pop_front();
    }
    port.ar_ready_i = accesses_.size() <= 1 && is_willing(random_, pace_.reads);
    port.w_ready_i = is_willing(random_, pace_.writes);
    port.clk_i = 0;
    Simulation<Bench>::settle();
    if (port.ar_valid_o != 0 && port.ar_ready_i != 0) {
      for (unsigned i = 0; i <= port.ar_len_o; ++i) {
        accesses_.push_back({.id = static_cast<std::uint16_t>(port.ar_id_o),
                             .address = port.ar_addr_o + i * NKV_BURST_BYTES,
                             .last = i == port.ar_len_o,
                             .number = 0,
                             .beat = {}});
      }
    }
    if (port.w_valid_o != 0 && port.w_ready_i != 0) {
      emulator::AxiMemory::Write write{.id = static_cast<std::uint16_t>(port.w_id_o),
                                       .address = port.w_addr_o,
                                       .strobes = port.w_strb_o,
                                       .data = {}};
      std::copy_n(port.w_data_o.data(), write.data.size(), write.data.begin());
      axi_.write(write);
      ++bursts_written_;
    }
    Simulation<Bench>::tick();
    axi_.advance();
    ++run_cycles_;
  }

  std::vector<std::byte> bytes_;
  std::vector<std::byte> model_bytes_;
  emulator::AxiMemory axi_;
  std::deque<Access> accesses_;   // Of reads that were taken.
  std::deque<Access> under_way_;  // That memory was asked for.
  std::uint16_t next_access_ = 0;
  PortPace pace_;
  test::Random random_;
  model::Outcome models_outcome_;
  std::uint64_t next_ = 0;
  std::uint64_t run_cycles_ = 0;
  std::uint64_t bursts_read_ = 0;
  std::uint64_t bursts_written_ = 0;
};

/// The same completion, and the same memory to the byte.
template <typename Bench>
void expect_models(CommandUnit<Bench>& unit, const model::Outcome& outcome) {
  const model::Outcome& expected = unit.models_outcome();
  EXPECT_EQ(int{outcome.verdict.status}, int{expected.verdict.status});
  EXPECT_EQ(outcome.verdict.detail, expected.verdict.detail);
  EXPECT_EQ(outcome.count, expected.count);
  const auto differing = std::ranges::mismatch(unit.window(), unit.models_window());
  EXPECT_EQ(differing.in1, unit.window().end())
      << "memory differs first at " << differing.in1 - unit.window().begin();
}

}  // namespace nearkv::rtl_test

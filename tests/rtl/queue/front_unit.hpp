// nkv_front between a host, a memory and engines: commands say how long they take and what they
// move, and all that happens is kept with its cycle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "Vnkv_front.h"
#include "nkv_abi.h"
#include "simulation.hpp"
#include "verilated/axi_memory.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kEngines = NEARKV_ENGINES;

/// What an engine here does with a command.
struct Work {
  std::uint8_t opcode = 0;
  std::uint8_t status = NKV_STATUS_OK;
  std::uint16_t tag = 0;
  std::uint32_t cycles = 20;  ///< At least reads + writes + refused + late + 2.
  std::uint32_t reads = 0;    ///< Bursts, asked for one a cycle, answered in the next,
  std::uint32_t writes = 0;
  std::uint32_t refused = 0;  ///< the first after so many refusals,
  std::uint32_t late = 0;     ///< the last so many cycles later.
  /// Then so many cycles, in which the engine may have the next command,
  std::uint32_t trails = 0;
  std::uint32_t results = 0;  ///< and so many writes, less than cycles.
};

struct Started {
  std::uint64_t at;  ///< Cycle.
  unsigned queue;
  Work work;
  unsigned engine;
};

struct Written {
  std::uint64_t at;
  unsigned queue;
  nkv_completion completion;
};

class FrontUnit {
 public:
  explicit FrontUnit(emulator::MemoryTiming timing = {});

  static constexpr unsigned kQueues = NKV_MAX_QUEUES;
  static constexpr std::uint64_t kMemoryBytes = 1 << 20;
  static constexpr std::uint64_t kEntries = 16;

  // ---- The host ----
  std::uint64_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint64_t value);
  /// Enables a queue over rings of kEntries of its own. `place` moves them, for a second life.
  void enable(unsigned queue, unsigned place = 0);
  /// Puts a command into the ring; rung by ring().
  void submit(unsigned queue, const Work& work);
  /// Leaves a slot out, whose command is to end with a tag of 0.
  void skip(unsigned queue);
  /// Writes the slot of command `index` of a queue, in that command's phase.
  void write_slot(unsigned queue, unsigned index, const Work& work);
  void ring(unsigned queue);
  /// Reads what has arrived, in order, and checks phase, order and sq_head.
  std::optional<nkv_completion> take(unsigned queue);
  [[nodiscard]] unsigned taken(unsigned queue) const { return hosts_.at(queue).taken; }
  /// Commands that were submitted and whose completions were not taken.
  [[nodiscard]] unsigned open(unsigned queue) const;
  [[nodiscard]] unsigned interrupts() const { return rtl_->irq_o; }

  void cycle();
  void cycles(std::uint64_t count);
  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] Vnkv_front& ports() { return *rtl_; }
  [[nodiscard]] emulator::AxiMemory& memory() { return memory_; }
  /// Whether memory takes writes for now.
  void take_writes(bool takes) { takes_writes_ = takes; }
  /// Whether memory owes the engines nothing.
  void keep_engines_quiet(bool is_quiet) { engines_are_quiet_ = is_quiet; }
  /// As a reset does.
  void forget_engines() { engines_ = {}; }
  /// As a watchdog does: the command ends with INTERNAL, and the engine takes no other.
  void stop_engine(unsigned engine);
  [[nodiscard]] bool engine_is_busy(unsigned engine = 0) const {
    return engines_.at(engine).running.has_value();
  }
  [[nodiscard]] bool engines_are_busy() const;

  std::vector<Started> started;        ///< By engines.
  std::vector<std::uint64_t> ended;    ///< Cycles of outcomes.
  std::vector<Written> written;        ///< Completions that memory took.
  std::vector<std::uint64_t> fetched;  ///< Cycles in which a command was asked for.

 private:
  struct Host {
    std::uint64_t sq_base = 0;
    std::uint64_t cq_base = 0;
    std::uint16_t tail = 0;
    std::uint16_t taken = 0;
    std::vector<Work> submitted;
  };
  struct Running {
    Work work;
    unsigned queue = 0;
    std::uint32_t cycle = 0;
    std::uint32_t refused = 0;
    std::uint32_t reads = 0;
    std::uint32_t writes = 0;
    bool read_pending = false;
    bool write_pending = false;
    std::uint32_t late = 0;  ///< Cycles until the answer.
  };

  struct Engine {
    std::optional<Running> running;
    std::optional<Running> trailing;
    bool has_stopped = false;
  };

  void drive_engine(unsigned engine);
  void drive_outcome(unsigned engine, const Work& work);
  void sample_engine(unsigned engine);
  void sample_running(unsigned engine);
  [[nodiscard]] unsigned queue_of_tenant(unsigned engine) const;

  Simulation<Vnkv_front> simulation_;
  Vnkv_front* rtl_;
  std::vector<std::byte> bytes_;
  emulator::AxiMemory memory_;
  std::array<Host, kQueues> hosts_;
  std::array<Engine, kEngines> engines_;
  bool takes_writes_ = true;
  bool engines_are_quiet_ = true;
  std::uint64_t now_ = 0;
};

}  // namespace nearkv::rtl_test

// The Verilated engines as a card: registers, memory, a clock.
#ifndef NEARKV_EMULATOR_VERILATED_CARD_HPP_
#define NEARKV_EMULATOR_VERILATED_CARD_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fabric/dram/timing.hpp"
#include "support/device_memory.hpp"
#include "verilated/access_trace.hpp"
#include "verilated/axi_memory.hpp"
#include "verilated/host_traffic.hpp"
#include "verilated/machine.hpp"

namespace nearkv::emulator {

/// The clock runs in register accesses, for as long as their effect takes, and in wait(). Calls may
/// come from two threads.
class VerilatedCard {
 public:
  /// Around a machine that was made for memory of this size. With `dram`, memory answers when that
  /// does, and timing.latency_cycles is its latency.
  VerilatedCard(std::unique_ptr<DeviceMemory> memory, std::unique_ptr<Machine> machine,
                MemoryTiming timing, const dram::Timing* dram = nullptr);
  VerilatedCard(const VerilatedCard&) = delete;
  VerilatedCard& operator=(const VerilatedCard&) = delete;

  /// Reads a register; all ones where there is none.
  std::uint64_t read_csr(std::uint32_t offset);
  /// Writes a register; ignored where there is none that can be written.
  void write_csr(std::uint32_t offset, std::uint64_t value);
  [[nodiscard]] std::span<std::byte> memory() const { return memory_->bytes(); }

  /// Runs the clock until a queue's interrupt line is high, and takes the interrupt as a handler
  /// does: puts its status bit back. False after `timeout`. Without interrupts for a while, and
  /// true.
  bool wait(std::chrono::nanoseconds timeout);

  /// drop_read counts the reads of slice 0, drop_write and refuse_write its writes.
  void set_faults(MemoryFaults faults);
  /// From now on the host accesses memory beside the engine; see HostTraffic for where.
  void add_host_traffic(HostLoad load);
  /// From now on the card's accesses are written down; false if the file cannot be written.
  [[nodiscard]] bool trace(const std::string& path);

 private:
  void tick();
  void offer_memory(std::size_t slice);
  [[nodiscard]] bool passes();  // Whether a channel takes this cycle.
  bool take_accesses(std::size_t slice);
  void offer_host_accesses();
  void take_host_answers();
  void note(const char* event, std::uint64_t first, std::uint64_t second = 0);
  [[nodiscard]] std::uint64_t queue_interrupts() const;  // Bits of INTERRUPT_STATUS.
  void access(bool writes, std::uint32_t offset, std::uint64_t value);

  std::mutex mutex_;
  std::unique_ptr<DeviceMemory> memory_;
  struct SliceMemory {
    AxiMemory axi;
    AxiMemory::ReadBeat beat{};
    AxiMemory::Answer answer{};
  };
  std::vector<SliceMemory> slices_;
  unsigned stall_percent_;
  std::mt19937_64 stalls_;
  std::optional<HostTraffic> host_;
  std::optional<AccessTrace> trace_;
  std::unique_ptr<Machine> machine_;
  std::uint64_t quiet_cycles_ = 0;  // Since memory was last used.
  std::uint64_t interrupts_ = 0;    // That are there.
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_CARD_HPP_

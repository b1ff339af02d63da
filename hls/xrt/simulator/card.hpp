// The emulated card: compute units, their registers by address, the memory behind them, and one
// clock.
#ifndef NEARKV_HLS_XRT_SIMULATOR_CARD_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_CARD_HPP_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "xrt/simulator/axi_lite_master.hpp"
#include "xrt/simulator/axi_memory_port.hpp"
#include "xrt/simulator/device_memory.hpp"
#include "xrt/simulator/kernel_model.hpp"
#include "xrt/xclbin/description.hpp"

namespace nearkv::hw_emu {

/// Used by one thread.
class Card {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Resets all compute units. `tell` hears what users should know. `memory` outlives this. Throws
  /// std::runtime_error if a kernel of the description was not compiled into this simulator.
  Card(const Description& description, DeviceMemory* memory, Tell tell);

  /// Registers, 32 bits each at multiples of 4; of a sequence, the one that starts a kernel is
  /// written last. False, and told, if there is no such register or the kernel does not answer.
  [[nodiscard]] bool read_registers(std::uint64_t address, std::span<std::uint32_t> values);
  [[nodiscard]] bool write_registers(std::uint64_t address, std::span<const std::uint32_t> values);

  /// Whether a kernel has something to do, as far as can be seen from outside: it was started and
  /// has not ended, or has used registers or memory a short while ago.
  [[nodiscard]] bool is_busy() const;
  /// Runs the clock until so much time has passed or nothing is busy.
  void run(std::chrono::microseconds time);
  /// Runs it so many cycles.
  void run_cycles(std::uint64_t cycles);

  [[nodiscard]] std::uint64_t cycles() const { return cycles_; }

 private:
  struct Unit {
    std::string name;
    std::uint64_t base;
    std::uint32_t register_bytes;
    bool has_start;  // Its protocol is one of ap_start.
    std::unique_ptr<KernelModel> model;
    AxiLiteMaster control;
    std::vector<AxiMemoryPort> ports;
    bool is_started = false;
    bool is_lost = false;  // It has left an access unanswered.
    std::uint64_t used_at = 0;
  };

  void add(const Kernel& kernel, const ComputeUnit& unit, unsigned latency_cycles,
           DeviceMemory* memory);
  [[nodiscard]] Unit* unit_of(std::uint64_t address, std::size_t bytes);
  bool finish_access(Unit& unit, std::uint32_t offset);
  void step();
  [[nodiscard]] bool is_busy(const Unit& unit) const;

  Tell tell_;
  std::vector<Unit> units_;
  std::uint64_t cycles_ = 0;
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_CARD_HPP_

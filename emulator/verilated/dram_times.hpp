// Memory that answers when DRAM does.
#ifndef NEARKV_EMULATOR_VERILATED_DRAM_TIMES_HPP_
#define NEARKV_EMULATOR_VERILATED_DRAM_TIMES_HPP_

#include <cstdint>
#include <optional>

#include "fabric/dram/dram.hpp"
#include "verilated/axi_memory.hpp"

namespace nearkv::emulator {

class DramTimes final : public AnswerTimes {
 public:
  DramTimes(const dram::Timing& timing, unsigned latency_cycles) : dram_(timing, latency_cycles) {}

  [[nodiscard]] bool takes_reads() const override { return dram_.takes_reads(); }
  [[nodiscard]] bool takes_writes() const override { return dram_.takes_writes(); }
  void read(std::uint64_t number, std::uint64_t address) override { dram_.read(number, address); }
  void write(std::uint64_t number, std::uint64_t address) override { dram_.write(number, address); }
  std::optional<std::uint64_t> answered_read() override { return dram_.answered_read(); }
  std::optional<std::uint64_t> answered_write() override { return dram_.answered_write(); }
  void advance() override { dram_.advance(); }

 private:
  dram::Dram dram_;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_DRAM_TIMES_HPP_

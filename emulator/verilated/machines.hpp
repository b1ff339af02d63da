// The machines that rtl: may be.
#ifndef NEARKV_EMULATOR_VERILATED_MACHINES_HPP_
#define NEARKV_EMULATOR_VERILATED_MACHINES_HPP_

#include <cstdint>
#include <memory>
#include <string>

#include "verilated/machine.hpp"

namespace nearkv::emulator {

struct MachineKind {
  std::string top = "nkv_top";
  unsigned slices = 1;
};

/// Why there is no such machine with so much memory; nothing if there is one.
[[nodiscard]] std::string machine_lacks(const MachineKind& kind, std::uint64_t memory_bytes);

/// One that is not lacking, after reset.
std::unique_ptr<Machine> make_machine(const MachineKind& kind, std::uint64_t memory_bytes);

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_MACHINES_HPP_

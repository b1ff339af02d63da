#include "verilated/machines.hpp"

#include "Vnkv_top_1.h"
#include "Vnkv_top_2.h"
#include "Vnkv_top_4.h"
#include "verilated/afu_machine.hpp"
#include "verilated/top_machine.hpp"

namespace nearkv::emulator {

std::string machine_lacks(const MachineKind& kind, std::uint64_t memory_bytes) {
  if (kind.top == "afu_top") {
    const bool fits =
        kind.slices == AfuMachine::kSlices && memory_bytes == AfuMachine::kMemoryBytes;
    if (fits) return {};
    return "top=afu_top has slices=" + std::to_string(AfuMachine::kSlices) +
           " and memory=" + std::to_string(AfuMachine::kMemoryBytes >> 20) + "MiB";
  }
  if (kind.top != "nkv_top") return "top= is nkv_top or afu_top";
  const bool fits = kind.slices == 1 || kind.slices == 2 || kind.slices == 4;
  return fits ? "" : "slices= is 1, 2 or 4";
}

std::unique_ptr<Machine> make_machine(const MachineKind& kind, std::uint64_t memory_bytes) {
  if (kind.top == "afu_top") return std::make_unique<AfuMachine>();
  if (kind.slices == 4) return std::make_unique<TopMachine<Vnkv_top_4>>(memory_bytes);
  if (kind.slices == 2) return std::make_unique<TopMachine<Vnkv_top_2>>(memory_bytes);
  return std::make_unique<TopMachine<Vnkv_top_1>>(memory_bytes);
}

}  // namespace nearkv::emulator

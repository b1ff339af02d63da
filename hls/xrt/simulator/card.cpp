#include "xrt/simulator/card.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

namespace nearkv::hw_emu {

namespace {

constexpr unsigned kResetCycles = 16;
// For which a kernel may leave an access to its registers unanswered.
constexpr unsigned kPatienceCycles = 100'000;
// After its last use a kernel that was not started counts as busy for so long,
constexpr std::uint64_t kLingerCycles = 20'000;
// and one that was started, and uses no memory.
constexpr std::uint64_t kSilentCycles = 50'000'000;
constexpr unsigned kCyclesPerLook = 64;
// Between a write to registers and whatever the host does next, which on a card is far away.
constexpr unsigned kWayCycles = 32;

// Bits of the register at offset 0, by UG902's and UG1399's block-level protocols.
constexpr std::uint32_t kStart = 1;
constexpr std::uint32_t kDone = 2;
constexpr std::uint32_t kIdle = 4;

}  // namespace

Card::Card(const Description& description, DeviceMemory* memory, Tell tell)
    : tell_(std::move(tell)) {
  for (const Kernel& kernel : description.kernels) {
    for (const ComputeUnit& unit : kernel.compute_units) {
      add(kernel, unit, description.memory_latency_cycles, memory);
    }
  }
}

void Card::add(const Kernel& kernel, const ComputeUnit& unit, unsigned latency_cycles,
               DeviceMemory* memory) {
  auto model = make_kernel_model(kernel.name, unit.name);
  if (model == nullptr) {
    throw std::runtime_error("kernel " + kernel.name + " was not compiled into this simulator");
  }
  const Ports& ports = model->ports();
  std::vector<AxiMemoryPort> masters;
  masters.reserve(kernel.masters.size());
  for (const std::string& prefix : kernel.masters) {
    masters.emplace_back(ports, prefix, memory, latency_cycles,
                         [this, begin = unit.name + ": "](const std::string& text) {
                           tell_(std::string(begin).append(text));
                         });
  }
  Pin reset = ports.find(kernel.reset);
  reset.set(0);
  units_.push_back({.name = unit.name,
                    .base = unit.base,
                    .register_bytes = kernel.register_bytes,
                    .has_start = kernel.protocol != "ap_ctrl_none",
                    .model = std::move(model),
                    .control = AxiLiteMaster(ports, kernel.control),
                    .ports = std::move(masters)});
  run_cycles(kResetCycles);
  reset.set(1);
  run_cycles(kResetCycles);
  units_.back().used_at = 0;
}

void Card::step() {
  ++cycles_;
  for (Unit& unit : units_) {
    unit.control.drive();
    for (AxiMemoryPort& port : unit.ports) port.drive();
    unit.model->settle();
    bool is_used = unit.control.is_busy();
    unit.control.sample();
    for (AxiMemoryPort& port : unit.ports) is_used = port.sample() || is_used;
    if (is_used) unit.used_at = cycles_;
    unit.model->clock();
  }
}

void Card::run_cycles(std::uint64_t cycles) {
  for (std::uint64_t i = 0; i < cycles; ++i) step();
}

void Card::run(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    run_cycles(kCyclesPerLook);
  } while (is_busy() && std::chrono::steady_clock::now() < end);
}

bool Card::is_busy(const Unit& unit) const {
  return cycles_ - unit.used_at < (unit.is_started ? kSilentCycles : kLingerCycles);
}

bool Card::is_busy() const {
  return std::ranges::any_of(units_, [this](const Unit& unit) { return is_busy(unit); });
}

Card::Unit* Card::unit_of(std::uint64_t address, std::size_t bytes) {
  const auto found = std::ranges::find_if(units_, [address](const Unit& unit) {
    return address >= unit.base && address - unit.base < unit.register_bytes;
  });
  if (found == units_.end() || address % 4 != 0 ||
      bytes > found->register_bytes - (address - found->base)) {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(), "no compute unit has %zu bytes of registers at 0x%llx",
                  bytes, static_cast<unsigned long long>(address));
    tell_(text.data());
    return nullptr;
  }
  return &*found;
}

bool Card::finish_access(Unit& unit, std::uint32_t offset) {
  std::array<char, 120> text{};
  if (!unit.is_lost) {
    for (unsigned i = 0; i < kPatienceCycles && unit.control.is_busy(); ++i) step();
    unit.is_lost = unit.control.is_busy();
    if (unit.is_lost) {
      std::snprintf(text.data(), text.size(), ": register 0x%x was not answered in %u cycles",
                    offset, kPatienceCycles);
      tell_(unit.name + text.data());
    }
  }
  if (unit.is_lost) return false;
  if (unit.control.failed()) {
    std::snprintf(text.data(), text.size(), ": register 0x%x was answered by an error", offset);
    tell_(unit.name + text.data());
  }
  return !unit.control.failed();
}

bool Card::read_registers(std::uint64_t address, std::span<std::uint32_t> values) {
  Unit* const unit = unit_of(address, values.size_bytes());
  if (unit == nullptr) return false;
  auto offset = static_cast<std::uint32_t>(address - unit->base);
  for (std::uint32_t& value : values) {
    if (!unit->is_lost) unit->control.begin_read(offset);
    if (!finish_access(*unit, offset)) return false;
    value = unit->control.value();
    if (offset == 0 && (value & (kDone | kIdle)) != 0) unit->is_started = false;
    offset += 4;
  }
  return true;
}

bool Card::write_registers(std::uint64_t address, std::span<const std::uint32_t> values) {
  Unit* const unit = unit_of(address, values.size_bytes());
  if (unit == nullptr) return false;
  const auto first = static_cast<std::uint32_t>(address - unit->base);
  // The shim writes all registers from 0 on at once: arguments must be there before the start.
  for (std::size_t i = values.size(); i-- > 0;) {
    const auto offset = first + static_cast<std::uint32_t>(4 * i);
    if (!unit->is_lost) unit->control.begin_write(offset, values[i]);
    if (!finish_access(*unit, offset)) return false;
    if (offset == 0 && (values[i] & kStart) != 0 && unit->has_start) unit->is_started = true;
  }
  run_cycles(kWayCycles);
  return true;
}

}  // namespace nearkv::hw_emu

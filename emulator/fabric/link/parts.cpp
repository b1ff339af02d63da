#include "fabric/link/parts.hpp"

#include <algorithm>
#include <array>

namespace nearkv::fabric {
namespace {

constexpr Picoseconds kPath = 35 * kNanosecond;

/// Both channels of a DIMM move a line a cycle each.
MemoryShape dimm(Picoseconds cycle, unsigned latency_cycles) {
  return {.timing = "ddr5", .latency_cycles = latency_cycles, .port_lines = 2, .cycle = cycle};
}

Shape local() {
  return {
      .host = {.path = kPath}, .card = {.memory = dimm(2500, 18)}, .link = {}, .fabric_switch = {}};
}

Shape card(Picoseconds protocol, const MemoryShape& memory) {
  return {.host = {.path = kPath, .bridge = 50 * kNanosecond, .protocol = 12 * kNanosecond},
          .card = {.protocol = protocol, .memory = memory},
          .link = LinkShape{},
          .fabric_switch = {}};
}

Shape asic() { return card(15 * kNanosecond, dimm(2727, 17)); }

Shape fpga() {
  return card(60 * kNanosecond, {.timing = "ddr4", .latency_cycles = 18, .port_lines = 1});
}

Shape behind_switch(Shape shape) {
  shape.fabric_switch = SwitchShape{.port = 70 * kNanosecond};
  return shape;
}

}  // namespace

std::span<const Part> parts() {
  static const std::array parts = {
      Part{"local", "one DIMM of DDR5-4800 at the host", local()},
      Part{"asic", "a card with an ASIC and one DIMM of DDR5-4400", asic()},
      Part{"fpga", "a card with an FPGA and one DIMM of DDR4-3200", fpga()},
      Part{"fpga_switch", "the same behind a switch that takes 70 ns each way",
           behind_switch(fpga())},
  };
  return parts;
}

const Part* find_part(std::string_view name) {
  const auto found = std::ranges::find(parts(), name, &Part::name);
  return found == parts().end() ? nullptr : &*found;
}

}  // namespace nearkv::fabric

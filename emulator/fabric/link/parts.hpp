// Systems with published figures: what is simulated here can be held against them.
#pragma once

#include <span>
#include <string_view>

#include "fabric/link/system.hpp"

namespace nearkv::fabric {

/// Delays are those of CXL-DMSim (arXiv 2411.02282), which its authors found within 3.4 % of
/// machines: 50 ns of bridge and 12 ns of protocol in the host, 15 ns of protocol in a card with an
/// ASIC, 60 ns in one with an FPGA, each way, and room for 48 requests in a card. Two are ours:
/// 45 ns for memory with its controller, and 35 ns between core and memory, with which local memory
/// takes the 130 ns that follow from the two ratios of latencies which they published. DDR5-4400 is
/// DDR5-4800 with longer clocks. The switch's 70 ns are an assumption.
struct Part {
  std::string_view name;
  std::string_view what;
  Shape shape;
};

/// "local" comes first.
std::span<const Part> parts();
/// Null where there is none of this name.
const Part* find_part(std::string_view name);

}  // namespace nearkv::fabric

// What DRAM forbids, checked on the commands of one channel; knows nothing of who chose them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fabric/dram/banks.hpp"
#include "fabric/dram/timing.hpp"

namespace nearkv::test {

/// Commands in order of their clocks. One line for each rule that a command breaks: its name, as
/// JEDEC has it, and where.
std::vector<std::string> broken_rules(const dram::Timing& timing,
                                      std::span<const dram::Command> commands);

}  // namespace nearkv::test

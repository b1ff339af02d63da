#include "access_latencies.hpp"

#include <fstream>
#include <string>

#include "nkv_abi.h"

namespace nearkv::bench {
namespace {

bool contains(AddressRange range, std::uint64_t address) {
  return address >= range.begin && address < range.end;
}

}  // namespace

std::vector<AccessLatencies> access_latencies(const std::filesystem::path& trace,
                                              AddressRange window, AddressRange pages) {
  std::ifstream file(trace);
  std::vector<AccessLatencies> commands;
  AccessLatencies command;
  std::uint64_t doorbell = 0;
  std::uint64_t last_beat = 0;
  std::uint64_t cycle = 0;
  std::string event;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  while (file >> cycle >> event >> first >> second) {
    if (event == "csr" && first == NKV_REG_SQ_TAIL(0)) {
      doorbell = cycle;
      command = {};
    } else if (event == "read") {
      if (!command.first_read && contains(window, second)) command.first_read = cycle - doorbell;
      if (!command.first_page && contains(pages, second)) command.first_page = cycle - doorbell;
    } else if (event == "beat") {
      last_beat = cycle;
    } else if (event == "interrupt") {
      command.completion = cycle - last_beat;
      commands.push_back(command);
    }
  }
  return commands;
}

}  // namespace nearkv::bench

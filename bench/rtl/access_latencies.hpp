// How long a command waits, from the trace of a card's accesses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace nearkv::bench {

/// Device addresses from begin on, before end.
struct AddressRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Of one command, in cycles; none: no such access.
struct AccessLatencies {
  std::optional<std::uint64_t> first_read;  ///< From the doorbell to the first read in the window.
  std::optional<std::uint64_t> first_page;  ///< From the doorbell to the first read of a page.
  std::uint64_t completion = 0;             ///< From the last beat to the completion.
};

/// Of the commands in a trace as emulator::AccessTrace writes it, one at a time by queue 0.
std::vector<AccessLatencies> access_latencies(const std::filesystem::path& trace,
                                              AddressRange window, AddressRange pages);

}  // namespace nearkv::bench

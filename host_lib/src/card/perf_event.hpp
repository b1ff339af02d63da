// Events of the card's PMUs, which its driver shows perf (perf_event_open).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Of perf's attributes: config, config1, config2.
using PerfConfig = std::array<std::uint64_t, 3>;

/// Opens an event of a PMU, on one processor, that does not count yet. kNoDevice: no card has this
/// PMU; kDenied; kUnsupported: the card counts nothing like it; kBadArgument: not so; kBusy:
/// somebody else has it; kIoError, each with a reason.
Status open_perf_event(const std::string& pmu, const PerfConfig& config, FileDescriptor* event,
                       std::string* reason);

/// Has it count from now on.
Status enable_perf_event(const FileDescriptor& event, std::string* reason);

/// A number from a PMU's folder: "caps/entries". None: no card has this PMU.
[[nodiscard]] std::optional<std::uint64_t> read_pmu_number(const std::string& pmu,
                                                           const std::string& attribute);

}  // namespace nearkv

// CXL modules by libcxl and libdaxctl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "card/card.hpp"

namespace nearkv {

/// The module of this serial number.
[[nodiscard]] std::optional<CardModule> find_module(std::uint64_t serial);

/// The first root decoder below which a module's volatile memory can be mapped; "" if none.
[[nodiscard]] std::string volatile_decoder(std::uint64_t serial);

/// Waits, for ten seconds at most, until the kernel works with this module: after an error that was
/// not corrected the module is away while its link is reset. kTimeout, with a reason.
Status await_module(std::uint64_t serial, std::string* reason);

/// Frees a region's addresses from the DAX driver that has them. kBusy: they are system RAM.
Status release_dax(const CardRegion& region, std::string* reason);

Status query_health(std::uint64_t serial, ModuleHealth* health, std::string* reason);

}  // namespace nearkv

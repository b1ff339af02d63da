// Which NIXL this process runs.
#pragma once

#include <string>

namespace nearkv::nixl {

/// The release of the wheel that libnixl.so was loaded from; empty if it came otherwise.
[[nodiscard]] std::string loaded_release();

}  // namespace nearkv::nixl

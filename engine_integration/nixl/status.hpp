// Statuses of stores in NIXL's words.
#pragma once

#include "nearkv/status.hpp"
#include "nixl_types.h"

namespace nearkv::nixl {

/// What NIXL is told. Never NIXL_ERR_REMOTE_DISCONNECT: on that an agent forgets its own storage,
/// whereas a store is there again as soon as its daemon is.
[[nodiscard]] nixl_status_t to_nixl(Status status);

}  // namespace nearkv::nixl

// The retention policies that ship: one file each, whose head says what it keeps, and why.
#pragma once

#include "nearkv/retention.hpp"
#include "policy/retention/parameters.hpp"

namespace nearkv {

[[nodiscard]] NamedRetentionPolicy heavy_hitters();
[[nodiscard]] NamedRetentionPolicy redundancy();
[[nodiscard]] NamedRetentionPolicy sliding_window();

}  // namespace nearkv

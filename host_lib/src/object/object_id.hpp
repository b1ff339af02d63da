// Objects by number.
#pragma once

#include <cstdint>
#include <limits>

namespace nearkv {

/// Number of an object's record: dense, and used again after the object is gone.
using ObjectId = std::uint32_t;
inline constexpr ObjectId kNoObject = std::numeric_limits<ObjectId>::max();

}  // namespace nearkv

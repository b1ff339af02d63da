// Memory that nobody shall read again.
#pragma once

#include <cstddef>
#include <span>

namespace nearkv {

/// Fills `bytes` with zeros, past the caches and ordered before every later store. Compilers cannot
/// leave it out, whatever becomes of the memory afterwards. Thread safe on distinct ranges.
void wipe(std::span<std::byte> bytes);

}  // namespace nearkv

// Places where a pool may be made because there is none.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace nearkv {

/// Whether there is nothing yet that a pool could be lost with: no file, an empty one, or one
/// whose header was never written. Also of a DAX device.
[[nodiscard]] bool is_blank_pool(const std::string& path);
/// The same of memory that is mapped.
[[nodiscard]] bool is_blank_pool(std::span<const std::byte> memory);

}  // namespace nearkv

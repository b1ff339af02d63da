// CRC32C as pages carry it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv {

/// Castagnoli polynomial, initial value and final inversion all ones (RFC 3720, appendix B.4).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace nearkv

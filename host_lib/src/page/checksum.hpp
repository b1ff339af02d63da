// CRC32C as pages carry it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv {

/// Castagnoli polynomial, initial value and final inversion all ones (RFC 3720, appendix B.4).
/// `before`: of the bytes that stand before these, to be continued.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace nearkv

// Element types as the tests see them: patterns and their exact values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nearkv::test {

/// The exact value of a pattern of an `nkv_dtype`; NaN and infinities as they are.
double decode(uint8_t dtype, uint32_t pattern);

/// The pattern nearest to a finite value, saturating.
uint32_t encode(uint8_t dtype, double value);

/// Patterns as little-endian elements of the type.
std::vector<std::byte> to_bytes(uint8_t dtype, std::span<const uint32_t> patterns);

/// The patterns of little-endian elements.
std::vector<uint32_t> from_bytes(uint8_t dtype, std::span<const std::byte> bytes);

}  // namespace nearkv::test

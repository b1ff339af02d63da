// The 64 bits by which an index knows a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv {

/// XXH3 of a key, seeded by the namespace's number, whose own seed is the pool's secret: tenants
/// who do not know it cannot aim at each other's fingerprints. Equal fingerprints of different keys
/// are possible: compare the keys.
[[nodiscard]] std::uint64_t fingerprint(std::uint64_t pool_seed, std::uint32_t namespace_number,
                                        std::span<const std::byte> key);

}  // namespace nearkv

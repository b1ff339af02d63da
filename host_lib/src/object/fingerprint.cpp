#include "object/fingerprint.hpp"

#include <xxhash.h>

namespace nearkv {

std::uint64_t fingerprint(std::uint64_t pool_seed, std::uint32_t namespace_number,
                          std::span<const std::byte> key) {
  const std::uint64_t seed =
      XXH3_64bits_withSeed(&namespace_number, sizeof(namespace_number), pool_seed);
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

}  // namespace nearkv

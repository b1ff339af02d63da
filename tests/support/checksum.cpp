#include "support/checksum.hpp"

namespace nearkv::test {

uint32_t checksum(std::span<const std::byte> bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    remainder ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder & 1) != 0 ? remainder >> 1 ^ 0x82f63b78u : remainder >> 1;
    }
  }
  return ~remainder;
}

}  // namespace nearkv::test

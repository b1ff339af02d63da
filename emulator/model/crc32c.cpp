#include "crc32c.hpp"

#include <array>

namespace nearkv::model {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78u;
  std::array<uint32_t, 256> table{};
  for (uint32_t value = 0; value < 256; ++value) {
    uint32_t remainder = value;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? kReversedPolynomial : 0);
    }
    table[value] = remainder;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    remainder = remainder >> 8 ^ kTable[(remainder ^ std::to_integer<uint32_t>(byte)) & 0xff];
  }
  return ~remainder;
}

}  // namespace nearkv::model

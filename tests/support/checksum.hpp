// The checksum of pages, written out: what tests hold the fast ones against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv::test {

/// CRC32C, bit by bit.
uint32_t checksum(std::span<const std::byte> bytes);

}  // namespace nearkv::test

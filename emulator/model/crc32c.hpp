// CRC32C (Castagnoli), the checksum of page headers and arrays.
#ifndef NEARKV_MODEL_CRC32C_HPP_
#define NEARKV_MODEL_CRC32C_HPP_

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv::model {

/// Initial value and final inversion all ones; of no bytes it is 0.
uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CRC32C_HPP_

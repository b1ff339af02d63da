// Where a page's search planes lie, and the byte dot products that AVX-512 VNNI has for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

/// Plane arrays of a page, most significant first.
struct PlaneBits {
  const std::uint8_t* plane[NKV_KEY_PLANES];
  std::size_t row_bytes;  ///< dim / 8.
};

/// Whether this machine and build have plane_sums_vnni for rows of `dim` channels.
[[nodiscard]] bool has_plane_sums_vnni(std::size_t dim);

/// sums[row * PAGE_TOKENS + token] = sum over channels of weight * j, j being the `planes` bits
/// that bits.plane[0 .. planes) hold of a code, most significant first. Only the tokens of `wanted`
/// are sure to be written. weights: [rows][dim], |w| < 2^11.
void plane_sums_vnni(const PlaneBits& bits, unsigned planes, const std::int16_t* weights,
                     std::size_t rows, std::size_t dim, std::uint64_t wanted, std::int32_t* sums);

}  // namespace nearkv

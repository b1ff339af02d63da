// PLANES_*: exponents as distances below their channel's largest, fields as bit planes, each
// section compressed on its own. The compression library is the parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/block_codec.hpp"

namespace nearkv::codec {

/// A general-purpose compressor, and the arrangement of the low exponent bits that suits it.
struct PlaneCompressor {
  /// True: one section, a byte holding the low 4 bits of two tokens, for an entropy coder to see
  /// them together. False: four bit planes, for a compressor that only finds repetition.
  bool pairs_tokens;

  /// Size of the compressed form written to `out`; 0 when it does not fit.
  std::size_t (*compress)(std::span<const std::byte> plain, std::span<std::byte> out,
                          Workspace& workspace);

  /// Whether `compressed`, which may be any bytes, expands to exactly `plain`.
  bool (*expand)(std::span<const std::byte> compressed, std::span<std::byte> plain,
                 Workspace& workspace);
};

[[nodiscard]] bool planes_support(const BlockShape& shape);
[[nodiscard]] std::size_t planes_bound(const BlockShape& shape);

/// Returns the encoded size. `out` has room for planes_bound(shape).
[[nodiscard]] std::size_t encode_planes(const PlaneCompressor& compressor, const BlockShape& shape,
                                        std::span<const std::uint16_t> words,
                                        std::span<std::byte> out, Workspace& workspace);

/// kOk or kCodecError.
Status decode_planes(const PlaneCompressor& compressor, const BlockShape& shape,
                     std::span<const std::byte> encoded, std::span<std::uint16_t> words,
                     Workspace& workspace);

}  // namespace nearkv::codec

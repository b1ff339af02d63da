// What a codec implements, and the list of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/workspace.hpp"
#include "nearkv/codec.hpp"
#include "nearkv/status.hpp"

namespace nearkv::codec {

/// One codec. Callers have checked the shape (dim and dtype are valid, `supports` agreed), that
/// `words` holds the block's elements, each widened to 16 bits, and that `out` has room for
/// `bound`.
struct BlockCodec {
  bool (*supports)(const BlockShape& shape);

  /// Most bytes of an encoded block.
  std::size_t (*bound)(const BlockShape& shape);

  Status (*encode)(const BlockShape& shape, std::span<const std::uint16_t> words,
                   std::span<std::byte> out, std::size_t* encoded_bytes, Workspace& workspace);

  /// `encoded` may be any bytes. kCodecError unless they are, as a whole, a block of this shape.
  Status (*decode)(const BlockShape& shape, std::span<const std::byte> encoded,
                   std::span<std::uint16_t> words, Workspace& workspace);
};

extern const BlockCodec none_codec;
extern const BlockCodec planes_lz4_codec;
extern const BlockCodec planes_zstd_codec;
extern const BlockCodec int8_codec;
extern const BlockCodec int4_codec;
extern const BlockCodec fp8_codec;

}  // namespace nearkv::codec

// PLANES_LZ4: sections are LZ4 blocks.
#include <lz4.h>

#include "codec/planes.hpp"

namespace nearkv::codec {
namespace {

std::size_t compress(std::span<const std::byte> plain, std::span<std::byte> out, Workspace&) {
  return static_cast<std::size_t>(LZ4_compress_default(
      reinterpret_cast<const char*>(plain.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(plain.size()), static_cast<int>(out.size())));
}

bool expand(std::span<const std::byte> compressed, std::span<std::byte> plain, Workspace&) {
  return LZ4_decompress_safe(reinterpret_cast<const char*>(compressed.data()),
                             reinterpret_cast<char*>(plain.data()),
                             static_cast<int>(compressed.size()),
                             static_cast<int>(plain.size())) == static_cast<int>(plain.size());
}

constexpr PlaneCompressor kLz4{.pairs_tokens = false, .compress = compress, .expand = expand};

Status encode(const BlockShape& shape, std::span<const std::uint16_t> words,
              std::span<std::byte> out, std::size_t* encoded_bytes, Workspace& workspace) {
  *encoded_bytes = encode_planes(kLz4, shape, words, out, workspace);
  return Status::kOk;
}

Status decode(const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::uint16_t> words, Workspace& workspace) {
  return decode_planes(kLz4, shape, encoded, words, workspace);
}

}  // namespace

const BlockCodec planes_lz4_codec{planes_support, planes_bound, encode, decode};

}  // namespace nearkv::codec

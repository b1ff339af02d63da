// PLANES_ZSTD: sections are ZSTD frames.
#include <zstd.h>

#include "codec/planes.hpp"

namespace nearkv::codec {
namespace {

std::size_t compress(std::span<const std::byte> plain, std::span<std::byte> out,
                     Workspace& workspace) {
  const std::size_t written =
      ZSTD_compress2(workspace.zstd_encoder(), out.data(), out.size(), plain.data(), plain.size());
  return ZSTD_isError(written) != 0 ? 0 : written;
}

/// Whether it is one frame, with neither checksum nor dictionary id. libzstd takes any number of
/// frames, and those that are skipped.
bool is_one_frame(std::span<const std::byte> compressed) {
  constexpr std::size_t kDescriptorAt = 4;  // RFC 8878, 3.1.1.1.
  constexpr std::byte kChecksumAndDictionary{0b111};
  return compressed.size() > kDescriptorAt &&
         (compressed[kDescriptorAt] & kChecksumAndDictionary) == std::byte{0} &&
         ZSTD_findFrameCompressedSize(compressed.data(), compressed.size()) == compressed.size();
}

bool expand(std::span<const std::byte> compressed, std::span<std::byte> plain,
            Workspace& workspace) {
  if (!is_one_frame(compressed)) return false;
  return ZSTD_decompressDCtx(workspace.zstd_decoder(), plain.data(), plain.size(),
                             compressed.data(), compressed.size()) == plain.size();
}

constexpr PlaneCompressor kZstd{.pairs_tokens = true, .compress = compress, .expand = expand};

Status encode(const BlockShape& shape, std::span<const std::uint16_t> words,
              std::span<std::byte> out, std::size_t* encoded_bytes, Workspace& workspace) {
  if (workspace.zstd_encoder() == nullptr) return Status::kOutOfMemory;
  *encoded_bytes = encode_planes(kZstd, shape, words, out, workspace);
  return Status::kOk;
}

Status decode(const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::uint16_t> words, Workspace& workspace) {
  if (workspace.zstd_decoder() == nullptr) return Status::kOutOfMemory;
  return decode_planes(kZstd, shape, encoded, words, workspace);
}

}  // namespace

const BlockCodec planes_zstd_codec{planes_support, planes_bound, encode, decode};

}  // namespace nearkv::codec

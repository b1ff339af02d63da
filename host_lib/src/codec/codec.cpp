#include "nearkv/codec.hpp"

#include <array>

#include "codec/block_codec.hpp"
#include "codec/element_bytes.hpp"
#include "codec/element_format.hpp"

namespace nearkv {
namespace {

using codec::BlockCodec;

struct TableEntry {
  Codec codec;
  const BlockCodec* implementation;
};

constexpr std::array kCodecs{
    TableEntry{Codec::kNone, &codec::none_codec},
    TableEntry{Codec::kPlanesLz4, &codec::planes_lz4_codec},
    TableEntry{Codec::kPlanesZstd, &codec::planes_zstd_codec},
    TableEntry{Codec::kInt8, &codec::int8_codec},
    TableEntry{Codec::kInt4, &codec::int4_codec},
    TableEntry{Codec::kFp8, &codec::fp8_codec},
};

bool is_valid(const BlockShape& shape) {
  const bool known_tensor = shape.tensor == Tensor::kKeys || shape.tensor == Tensor::kValues;
  return known_tensor && codec::element_format(shape.dtype).bytes != 0 && shape.dim != 0 &&
         shape.dim <= kMaxBlockDim && shape.dim % kBlockDimMultiple == 0;
}

// Null unless the codec takes blocks of this shape.
const BlockCodec* find_codec(Codec codec, const BlockShape& shape) {
  if (!is_valid(shape)) return nullptr;
  for (const TableEntry& entry : kCodecs) {
    if (entry.codec == codec && entry.implementation->supports(shape)) return entry.implementation;
  }
  return nullptr;
}

}  // namespace

bool codec_supports(Codec codec, const BlockShape& shape) noexcept {
  return find_codec(codec, shape) != nullptr;
}

std::size_t block_bytes(const BlockShape& shape) noexcept {
  return is_valid(shape) ? kBlockTokens * shape.dim * codec::element_format(shape.dtype).bytes : 0;
}

std::size_t encoded_bound(Codec codec, const BlockShape& shape) noexcept {
  const BlockCodec* const implementation = find_codec(codec, shape);
  return implementation != nullptr ? implementation->bound(shape) : 0;
}

Status encode(Codec codec, const BlockShape& shape, std::span<const std::byte> rows,
              std::span<std::byte> out, std::size_t* encoded_bytes,
              CodecWorkspace& workspace) noexcept {
  const BlockCodec* const implementation = find_codec(codec, shape);
  if (implementation == nullptr || encoded_bytes == nullptr || rows.size() != block_bytes(shape) ||
      out.size() < implementation->bound(shape)) {
    return Status::kBadArgument;
  }
  codec::Workspace* const memory = workspace.get();
  if (memory == nullptr) return Status::kOutOfMemory;
  const auto words = memory->words(kBlockTokens * shape.dim);
  codec::widen_elements(rows, words);
  return implementation->encode(shape, words, out, encoded_bytes, *memory);
}

Status decode(Codec codec, const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::byte> rows, CodecWorkspace& workspace) noexcept {
  const BlockCodec* const implementation = find_codec(codec, shape);
  if (implementation == nullptr || rows.size() != block_bytes(shape)) return Status::kBadArgument;
  codec::Workspace* const memory = workspace.get();
  if (memory == nullptr) return Status::kOutOfMemory;
  const auto words = memory->words(kBlockTokens * shape.dim);
  const Status status = implementation->decode(shape, encoded, words, *memory);
  if (status == Status::kOk) codec::narrow_elements(words, rows);
  return status;
}

}  // namespace nearkv

// NONE: the rows as they are.
#include "codec/block_codec.hpp"
#include "codec/element_bytes.hpp"

namespace nearkv::codec {
namespace {

bool supports(const BlockShape&) { return true; }

Status encode(const BlockShape& shape, std::span<const std::uint16_t> words,
              std::span<std::byte> out, std::size_t* encoded_bytes, Workspace&) {
  *encoded_bytes = block_bytes(shape);
  narrow_elements(words, out.first(*encoded_bytes));
  return Status::kOk;
}

Status decode(const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::uint16_t> words, Workspace&) {
  if (encoded.size() != block_bytes(shape)) return Status::kCodecError;
  widen_elements(encoded, words);
  return Status::kOk;
}

std::size_t bound(const BlockShape& shape) { return block_bytes(shape); }

}  // namespace

const BlockCodec none_codec{supports, bound, encode, decode};

}  // namespace nearkv::codec

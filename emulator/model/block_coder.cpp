#include "block_coder.hpp"

namespace nearkv::model {

uint8_t BlockCoder::encode(Codec codec, const BlockShape& shape, std::span<const std::byte> rows,
                           std::vector<std::byte>* block) {
  if (!codec_supports(codec, shape)) return NKV_STATUS_BAD_PAGE;
  CodecWorkspace workspace;
  block->resize(encoded_bound(codec, shape));
  size_t bytes = 0;
  const Status status = nearkv::encode(codec, shape, rows, *block, &bytes, workspace);
  if (status == Status::kOutOfMemory) return NKV_STATUS_INTERNAL;
  if (status != Status::kOk) return NKV_STATUS_BAD_PAGE;  // Elements that it does not take.
  block->resize(bytes);
  return NKV_STATUS_OK;
}

uint8_t BlockCoder::decode(Codec codec, const BlockShape& shape, std::span<const std::byte> block,
                           std::vector<std::byte>* rows) {
  CodecWorkspace workspace;
  rows->resize(block_bytes(shape));
  const Status status = nearkv::decode(codec, shape, block, *rows, workspace);
  if (status == Status::kOutOfMemory) return NKV_STATUS_INTERNAL;
  return status == Status::kOk ? NKV_STATUS_OK : NKV_STATUS_CORRUPT;
}

}  // namespace nearkv::model

// Blocks of compressed pages (FORMATS.md), and TRANSCODE by a device that makes them its own way.
#ifndef NEARKV_MODEL_BLOCK_CODER_HPP_
#define NEARKV_MODEL_BLOCK_CODER_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "domain.hpp"
#include "nearkv/codec.hpp"
#include "nkv_abi.h"
#include "outcome.hpp"

namespace nearkv::model {

/// Makes and takes apart the blocks of compressed pages, with a status of the contract. This is the
/// model's way, by the host library's codecs; a device that has another to the same bytes brings
/// it.
class BlockCoder {
 public:
  BlockCoder() = default;
  BlockCoder(const BlockCoder&) = delete;
  BlockCoder& operator=(const BlockCoder&) = delete;
  virtual ~BlockCoder() = default;

  /// BAD_PAGE if the codec does not take such rows.
  virtual uint8_t encode(Codec codec, const BlockShape& shape, std::span<const std::byte> rows,
                         std::vector<std::byte>* block);

  /// CORRUPT if it is no block of this shape.
  virtual uint8_t decode(Codec codec, const BlockShape& shape, std::span<const std::byte> block,
                         std::vector<std::byte>* rows);
};

/// The command, with blocks made and taken apart by `coder`.
Outcome transcode(const Domain& domain, const nkv_pages_command& command, BlockCoder& coder);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_BLOCK_CODER_HPP_

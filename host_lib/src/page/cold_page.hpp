// Compressed pages: a header, and the rows in a capacity codec (struct cold_payload).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nearkv/codec.hpp"
#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "persist/persistence.hpp"

namespace nearkv {

/// What a page holds, in the source dtype.
struct PageRows {
  std::vector<std::byte> keys;     ///< [PAGE_TOKENS][head_dim].
  std::vector<std::byte> values;   ///< [PAGE_TOKENS][value_dim]; empty with v_form NONE.
  std::vector<std::byte> scales;   ///< fp32 [PAGE_TOKENS]; empty without KEY_SCALES.
  std::vector<std::int8_t> gains;  ///< [head_dim]; empty without CODES.

  /// Sizes the parts for a page of this header.
  void resize(const nkv_page_header& header);
};

/// Reads and writes compressed pages. One thread at a time; reuse saves allocations.
class ColdPageCodec {
 public:
  /// Rows of a compressed page whose checksums have been verified. kCorrupt if the payload is not
  /// what the header says.
  Status unpack(const nkv_page_header& header, std::span<const std::byte> page, PageRows* rows);

  /// Writes a compressed page to the slot, all but its first 8 bytes. `header` is the source's with
  /// the new generation and codec; sizes and checksums are filled in. kBadPage if the codec does
  /// not take the rows, kPageOverflow if the page is larger than the slot.
  Status pack(const PageRows& rows, nkv_page_header* header, std::span<std::byte> slot,
              Persistence* persistence);

 private:
  Status encode_block(std::uint8_t codec, const BlockShape& shape, std::span<const std::byte> rows,
                      std::vector<std::byte>* block, std::uint32_t* bytes);

  CodecWorkspace workspace_;
  std::vector<std::byte> key_block_;
  std::vector<std::byte> value_block_;
};

}  // namespace nearkv

// Rows that stay in an engine's blocks while their pages, of a header and codes, lie beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearkv/block_attention.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Where the rows of each page are: page number (block * parts + part) * kv_heads + head has those
/// of PAGE_TOKENS tokens of one block and KV head.
class LentRows {
 public:
  struct Place {
    const std::uint8_t* keys;
    const std::uint8_t* values;
  };

  LentRows() = default;
  /// For pages of `page_bytes` bytes from `pages` on, and a cache of kRows.
  LentRows(const std::byte* pages, std::size_t page_bytes, const BlockCache& cache)
      : pages_(pages),
        page_grains_(static_cast<std::uint32_t>(page_bytes / NKV_PAGE_GRAIN_BYTES)),
        heads_(cache.kv_heads),
        parts_(cache.block_tokens / NKV_PAGE_TOKENS),
        part_bytes_(NKV_PAGE_TOKENS * std::size_t{cache.head_dim} * nkv_element_bytes(cache.dtype)),
        block_stride_(cache.block_stride_bytes),
        head_stride_(cache.head_stride_bytes),
        keys_(reinterpret_cast<const std::uint8_t*>(cache.keys)),
        values_(reinterpret_cast<const std::uint8_t*>(cache.values)) {}

  /// Of the page that begins at `page`.
  [[nodiscard]] Place of(const std::byte* page) const {
    const auto grain = static_cast<std::uint32_t>((page - pages_) / NKV_PAGE_GRAIN_BYTES);
    const std::uint32_t number = grain / page_grains_;
    const std::uint32_t token_page = number / heads_;
    const std::uint32_t block = token_page / parts_;
    const std::size_t place = block * block_stride_ + number % heads_ * head_stride_ +
                              (token_page - block * parts_) * part_bytes_;
    return {keys_ + place, values_ + place};
  }

 private:
  const std::byte* pages_ = nullptr;
  std::uint32_t page_grains_ = 1;
  std::uint32_t heads_ = 1;
  std::uint32_t parts_ = 1;
  std::size_t part_bytes_ = 0;
  std::size_t block_stride_ = 0;
  std::size_t head_stride_ = 0;
  const std::uint8_t* keys_ = nullptr;
  const std::uint8_t* values_ = nullptr;
};

}  // namespace nearkv

// Rows that stay in an engine's blocks while their pages, of a header and codes, lie beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

/// Where the rows of each page are: page number (block * parts + part) * kv_heads + head has those
/// of PAGE_TOKENS tokens of one block and KV head.
class LentRows {
 public:
  struct Place {
    const std::byte* keys;
    const std::byte* values;
  };

  /// How pages and rows lie. K and V have the same strides, and a KV head's rows of a block lie
  /// together.
  struct Shape {
    const std::byte* pages = nullptr;  ///< The first one.
    std::size_t page_bytes = 0;
    Place rows = {};  ///< Of block 0 and KV head 0.
    std::uint32_t kv_heads = 1;
    std::uint32_t parts = 1;  ///< Of a block.
    std::size_t row_bytes = 0;
    std::size_t head_stride_bytes = 0;
    std::size_t block_stride_bytes = 0;
  };

  explicit LentRows(const Shape& shape)
      : shape_(shape),
        page_grains_(static_cast<std::uint32_t>(shape.page_bytes / NKV_PAGE_GRAIN_BYTES)) {}

  /// Of the page that begins at `page`.
  [[nodiscard]] Place of(const std::byte* page) const {
    const auto grain = static_cast<std::uint32_t>((page - shape_.pages) / NKV_PAGE_GRAIN_BYTES);
    const std::uint32_t number = grain / page_grains_;
    const std::uint32_t token_page = number / shape_.kv_heads;
    const std::uint32_t block = token_page / shape_.parts;
    const std::size_t place =
        block * shape_.block_stride_bytes + number % shape_.kv_heads * shape_.head_stride_bytes +
        std::size_t{token_page - block * shape_.parts} * NKV_PAGE_TOKENS * shape_.row_bytes;
    return {shape_.rows.keys + place, shape_.rows.values + place};
  }

 private:
  Shape shape_;
  std::uint32_t page_grains_;
};

}  // namespace nearkv

// Rows of a page as the host handed them over, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "page/page_list.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// One page opened for reading back.
class PageReader {
 public:
  PageReader() = default;
  /// Reads a page that is open, and whose arrays have been verified.
  explicit PageReader(const PageView& view) : view_(view) {}

  /// `tensor`: KEYS, VALUES or BOTH of the contract. kBadPage if values are asked of a page
  /// without.
  Status open(const PageList& list, std::size_t page, std::uint8_t tensor);

  /// Checks every array that the rows come from. Before the first row is read.
  [[nodiscard]] Status verify() const;

  [[nodiscard]] const nkv_page_header& header() const { return view_.header(); }

  /// Bytes of one row as read_key / read_value write it.
  [[nodiscard]] std::size_t key_bytes() const;
  [[nodiscard]] std::size_t value_bytes() const;

  void read_key(std::size_t token, std::span<std::byte> out) const;
  void read_value(std::size_t token, std::span<std::byte> out) const;

 private:
  PageView view_;
  std::uint8_t tensor_ = NKV_TENSOR_KEYS;
};

}  // namespace nearkv

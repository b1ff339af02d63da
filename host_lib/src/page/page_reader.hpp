// Rows of a page as the host handed them over, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "page/page_list.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// One page opened for reading back. Every array that is used is verified on open.
class PageReader {
 public:
  /// `tensor`: KEYS, VALUES or BOTH of the contract. kBadPage if values are asked of a page
  /// without.
  Status open(const PageList& list, std::size_t page, std::uint8_t tensor);

  [[nodiscard]] const PageView& view() const { return view_; }

  /// Bytes of one row as read_key / read_value write it.
  [[nodiscard]] std::size_t key_bytes() const;
  [[nodiscard]] std::size_t value_bytes() const;

  void read_key(std::size_t token, std::span<std::byte> out) const;
  void read_value(std::size_t token, std::span<std::byte> out) const;

 private:
  PageView view_;
};

/// Opens a page for its search planes only, verified, and gives keys at plane precision.
class PlaneReader {
 public:
  Status open(const PageList& list, std::size_t page, unsigned planes);

  [[nodiscard]] std::size_t dim() const { return view_.header().head_dim; }

  /// Midpoints of the key's cells after `planes` planes, rounded to bf16, [dim].
  void read_key(std::size_t token, std::uint16_t* out) const;

 private:
  PageView view_;
  unsigned planes_ = 0;
};

}  // namespace nearkv

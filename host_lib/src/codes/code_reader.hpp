// Rows of a page as its codes tell them (section 11.8 of ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/page_list.hpp"
#include "page/page_view.hpp"

namespace nearkv {

struct CodeSelection {
  std::uint8_t tensor;  ///< KEYS, VALUES or BOTH of the contract.
  std::uint8_t planes;  ///< 1 to KEY_CODE_PLANES; values have no more than VALUE_CODE_PLANES.
};

/// One page opened for its codes.
class CodeReader {
 public:
  /// kBadPage if the page has no codes, or no values where they are asked.
  Status open(const PageList& list, std::size_t page, const CodeSelection& selection);

  /// Checks every array that the rows come from. Before the first row is read.
  [[nodiscard]] Status verify() const;

  [[nodiscard]] const nkv_page_header& header() const { return view_.header(); }

  /// Bytes of one row, which is bf16.
  [[nodiscard]] std::size_t key_bytes() const { return sizeof(std::uint16_t) * header().head_dim; }
  [[nodiscard]] std::size_t value_bytes() const {
    return sizeof(std::uint16_t) * header().value_dim;
  }

  void read_key(std::size_t token, std::span<std::byte> out) const;
  void read_value(std::size_t token, std::span<std::byte> out) const;

 private:
  PageView view_;
  CodeSelection selection_{};
};

}  // namespace nearkv

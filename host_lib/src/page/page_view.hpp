// A page of the pool, checked before anything of it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/row_source.hpp"
#include "page/window.hpp"

namespace nearkv {

/// How much of the header a reader relies on; more is checked the deeper it looks.
enum class HeaderDepth {
  kScan,  ///< First burst: summary, signs and gains of codes; the tenant is its queue's.
  kRows,  ///< Both bursts: rows, all planes of codes and identity may be used too.
};

/// A read-only view of one closed page, whose rows may lie elsewhere (Window). The header is a
/// private copy, so that what has been checked cannot change under the reader; arrays are read in
/// place, after check().
class PageView {
 public:
  /// kAddressFault, kStalePage, kBadPage, kColdPage or kCorrupt. A view that did not open is
  /// unusable.
  Status open(const Window& window, const nkv_page_entry& entry, HeaderDepth depth);

  [[nodiscard]] const nkv_page_header& header() const { return header_; }
  [[nodiscard]] const std::byte* start() const { return page_; }

  [[nodiscard]] bool has_codes() const { return (header_.flags & NKV_PAGE_FLAG_CODES) != 0; }

  /// Compares arrays with their checksums: kOk or kCorrupt. A command that finds one kCorrupt has
  /// the page compared at its next check(), too.
  [[nodiscard]] Status verify(std::span<const nkv_page_array> arrays) const;
  [[nodiscard]] Status verify(nkv_page_array array) const { return verify({&array, 1}); }

  /// Before `arrays` are read: compares all of the page if its device has not of late; where the
  /// device keeps no comparisons, these arrays each time. kOk or kCorrupt.
  [[nodiscard]] Status check(std::span<const nkv_page_array> arrays) const;
  [[nodiscard]] Status check(nkv_page_array array) const { return check({&array, 1}); }

  /// Compares all arrays with their checksums: kOk or kCorrupt.
  [[nodiscard]] Status verify_all() const;

  [[nodiscard]] std::span<const std::byte> bytes(nkv_page_array array) const {
    return {page_ + layout_.offset[array], layout_.bytes[array]};
  }
  template <typename T>
  [[nodiscard]] const T* data(nkv_page_array array) const {
    return reinterpret_cast<const T*>(page_ + layout_.offset[array]);
  }

  [[nodiscard]] RowSource keys() const { return keys_at(page_); }
  /// With v_form NONE the leading key channels.
  [[nodiscard]] RowSource values() const { return values_at(page_); }

  /// Where the rows of the page that begins at `page` are if it is like this one: to be fetched.
  [[nodiscard]] RowSource keys_at(const std::byte* page) const;
  [[nodiscard]] RowSource values_at(const std::byte* page) const;

 private:
  void lay_out(const nkv_page_shape& shape);

  const std::byte* page_ = nullptr;
  PageChecks* checks_ = nullptr;
  const LentRows* lent_rows_ = nullptr;
  nkv_page_header header_{};
  nkv_page_layout layout_{};
  std::uint64_t shape_ = 0;  // Whose layout that is, as bytes of a nkv_page_shape.
};

/// Where an entry's page starts in the window.
[[nodiscard]] constexpr std::uint64_t address_of(const nkv_page_entry& entry) {
  return std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
}

/// Lays out a page whose rows are lent: a header, and codes if the shape has any.
[[nodiscard]] nkv_page_layout lay_out_without_rows(nkv_page_shape shape);

/// Shape of a page as its header states it.
[[nodiscard]] nkv_page_shape shape_of(const nkv_page_header& header);

/// Bytes from the header to the end of the last array.
[[nodiscard]] std::uint32_t payload_bytes(const nkv_page_layout& layout);

/// Size of a page, attendable or compressed, in whole grains.
[[nodiscard]] std::uint64_t page_bytes(const nkv_page_header& header);

/// Where a header keeps the checksum of an array.
[[nodiscard]] std::uint32_t& stored_checksum(nkv_page_header& header, nkv_page_array array);

/// Checksums of the header's halves: bytes 0 to 59, and 64 to 123.
[[nodiscard]] std::uint32_t hot_checksum(const nkv_page_header& header);
[[nodiscard]] std::uint32_t cold_checksum(const nkv_page_header& header);

}  // namespace nearkv

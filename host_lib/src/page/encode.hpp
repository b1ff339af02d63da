// Builds a page from 64 K and V rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/window.hpp"
#include "persist/persistence.hpp"

namespace nearkv {

/// Rows as the host handed them over.
struct SourceRows {
  const std::byte* first = nullptr;
  std::size_t stride_bytes = 0;
};

/// What a page is made of.
struct PageContents {
  SourceRows keys;
  SourceRows values;                   ///< Unused with v_form NONE.
  std::span<const std::int8_t> gains;  ///< With CODES: of K, per channel.
  std::uint8_t sign_set = 0;           ///< With CODES.
};

/// What a page says of itself besides its contents.
struct PageIdentity {
  std::uint64_t sequence = 0;
  std::uint32_t first_token = 0;
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
  std::uint16_t tenant = 0;
  std::uint16_t generation = 0;
};

/// Writes everything but the header's first 8 bytes, which stay zero: nobody can find the page yet.
/// `slot` holds at least the bytes that nkv_page_layout(shape) asks for and starts the page. Fills
/// in the entry's exponents. kPageOverflow if DELTA4 cannot hold the rows.
Status encode_page(const nkv_page_shape& shape, const PageContents& contents,
                   const PageIdentity& identity, std::span<std::byte> slot, nkv_page_entry* entry);

/// What has to be known of rows where a page does not have them.
struct RowSummary {
  std::uint64_t nonfinite = 0;  ///< Tokens of the page whose key holds a NaN or an infinity.
  std::uint8_t k_exponent = 0;
  std::uint8_t v_exponent = 0;
  bool has_nonfinite_values = false;

  bool operator==(const RowSummary&) const = default;
  [[nodiscard]] bool is_finite() const { return nonfinite == 0 && !has_nonfinite_values; }

  /// Those of others of the page's tokens, too.
  void add(const RowSummary& others) {
    nonfinite |= others.nonfinite;
    k_exponent = std::max(k_exponent, others.k_exponent);
    v_exponent = std::max(v_exponent, others.v_exponent);
    has_nonfinite_values |= others.has_nonfinite_values;
  }
};

/// Of `tokens` rows, which are those of the page's tokens from `first` on.
[[nodiscard]] RowSummary summary_of(const nkv_page_shape& shape, const SourceRows& keys,
                                    const SourceRows& values, std::size_t first,
                                    std::size_t tokens);

/// Writes a page whose rows stay where they are: a header and codes. A reader may open it at once.
/// Returns what it says of its rows.
RowSummary encode_without_rows(const nkv_page_shape& shape, const PageContents& contents,
                               const PageIdentity& identity, std::span<std::byte> slot,
                               nkv_page_entry* entry);

/// The same of a page without codes, of which some tokens may have no rows yet.
void describe_without_rows(const nkv_page_shape& shape, const RowSummary& rows,
                           const PageIdentity& identity, std::span<std::byte> slot,
                           nkv_page_entry* entry);

/// Writes all of a header but its first 8 bytes, which publish_page writes.
void write_header(const nkv_page_header& header, std::span<std::byte> slot);

/// Makes an encoded page visible: one 8-byte store, ordered after all that encode_page wrote, which
/// has to be durable by now. Durable itself at the next fence. `flags` are the shape's.
void publish_page(std::span<std::byte> slot, std::uint8_t flags, const Window& window);

/// Makes a page unfindable, in the same way.
void retract_page(std::span<std::byte> slot, Persistence* persistence);

/// Makes what a slot may hold unfindable before the first byte of it changes, durably.
void vacate_slot(std::span<std::byte> slot, Persistence* persistence);

}  // namespace nearkv

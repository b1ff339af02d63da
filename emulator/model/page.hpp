// A page in device memory: acceptance, layout, checksums.
#ifndef NEARKV_MODEL_PAGE_HPP_
#define NEARKV_MODEL_PAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <span>

#include "domain.hpp"
#include "nkv_abi.h"
#include "verdict.hpp"

namespace nearkv::model {

/// The fields of a header that decide a page's layout.
nkv_page_shape shape_of(const nkv_page_header& header);

/// Whether APPEND could have written such a shape.
bool is_possible(const nkv_page_shape& shape);

/// Bytes behind the header up to the end of the last array.
uint32_t payload_bytes(const nkv_page_layout& layout);

/// Sets both header checksums.
void seal(nkv_page_header& header);

/// The checksum that a header keeps of an array.
uint32_t& stored_checksum(nkv_page_header& header, nkv_page_array array);

/// How much of a page a command relies on when it accepts it.
struct Acceptance {
  bool whole_header = true;  ///< Else only the first burst: all that a scan of codes reads.
  bool any_codec = false;    ///< Compressed pages too: TRANSCODE, SCRUB, ERASE and COPY.
};

/// A page that passed acceptance. A view: valid as long as device memory is.
class Page {
 public:
  /// Judges the page that entry number `index` of a list names. Its header is copied first; what
  /// follows depends on the copy only, so that a host's write in between cannot mislead it.
  static Verdict accept(const Domain& domain, const nkv_page_entry& entry, uint64_t index,
                        Acceptance acceptance, Page* page);

  /// The second header burst reads as zeros unless the whole header was accepted.
  [[nodiscard]] const nkv_page_header& header() const { return header_; }
  [[nodiscard]] bool has_codes() const {
    return header_.codec == NKV_CODEC_NONE && (header_.flags & NKV_PAGE_FLAG_CODES) != 0;
  }
  [[nodiscard]] const nkv_page_layout& layout() const { return layout_; }
  [[nodiscard]] bool whole_header() const { return whole_header_; }
  [[nodiscard]] bool key_is_delta4() const { return header_.k_form == NKV_ROW_FORM_DELTA4; }
  [[nodiscard]] uint64_t address() const { return address_; }

  /// All bytes of the page: header, arrays (or compressed payload), padding.
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  /// An array of a page of codec NONE; empty if absent.
  [[nodiscard]] std::span<const std::byte> array(nkv_page_array array) const {
    return bytes_.subspan(layout_.offset[array], layout_.bytes[array]);
  }

  /// Whether an array has the checksum that the header states. Other arrays than CODE_SUMMARY,
  /// K_SIGNS and K_GAINS need the whole header.
  [[nodiscard]] bool is_intact(nkv_page_array array) const;

  /// Whether everything that the header covers has its checksum: all arrays, or the payload.
  [[nodiscard]] bool is_intact() const;

 private:
  nkv_page_header header_{};
  nkv_page_layout layout_{};
  uint64_t address_ = 0;
  std::span<std::byte> bytes_;
  bool whole_header_ = false;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_PAGE_HPP_

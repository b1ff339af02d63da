// Pages in memory that a kernel reads, and where their arrays are.
#pragma once

#include "numbers.hpp"

namespace nearkv::cuda {

/// What a kernel tells of the first thing that it could not take: its index * 256 + the contract's
/// status. All ones: all went well.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

template <typename Block>
NKV_KERNEL void report(Block& block, std::uint64_t* fault, std::uint64_t index,
                       std::uint8_t status) {
  block.lower(fault, index << 8 | status);
}

/// Where the exact rows of a tensor are in a page, in bytes.
struct RowPlace {
  std::uint32_t rows = 0;
  std::uint32_t exponents = 0;   ///< DELTA4.
  std::uint32_t exceptions = 0;  ///< DELTA4.
};

/// Where all is in pages of one shape whose rows are stored in these forms.
struct PagePlaces {
  std::uint8_t k_form = 0;
  std::uint8_t v_form = 0;
  RowPlace keys;
  RowPlace values;
  std::uint32_t digest = 0;
  std::uint32_t planes[NKV_KEY_PLANES] = {};
  std::uint32_t total_bytes = 0;
};

/// Pages that a list names: `entries` of a window that starts at `window`. A page is stored in the
/// forms of its pool or, where DELTA4 could not hold it, with RAW rows.
struct Pages {
  const std::byte* window = nullptr;
  const nkv_page_entry* entries = nullptr;
  std::uint64_t window_bytes = 0;
  std::uint32_t count = 0;
  std::uint16_t head_dim = 0;
  std::uint16_t value_dim = 0;
  std::uint16_t tenant = 0;
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t flags = 0;
  PagePlaces usual;
  PagePlaces raw;
};

/// A page that may be read, and its places; its header is as the contract has it, but no checksum
/// was verified: the memory that holds a pool has that done by SCRUB.
struct OpenPage {
  const std::byte* start = nullptr;
  const nkv_page_header* header = nullptr;
  const PagePlaces* places = nullptr;
};

/// NKV_STATUS_OK, or why the page may not be read.
NKV_KERNEL std::uint8_t open_page(const Pages& pages, std::uint32_t index, OpenPage* page) {
  if (index >= pages.count) return NKV_STATUS_BAD_FIELD;
  const nkv_page_entry entry = pages.entries[index];
  const std::uint64_t address = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
  if (address > pages.window_bytes || sizeof(nkv_page_header) > pages.window_bytes - address) {
    return NKV_STATUS_ADDRESS_FAULT;
  }
  page->start = pages.window + address;
  page->header = reinterpret_cast<const nkv_page_header*>(page->start);
  const nkv_page_header& header = *page->header;
  if (header.magic == 0 || header.generation != entry.generation ||
      header.state != NKV_PAGE_STATE_CLOSED) {
    return NKV_STATUS_STALE_PAGE;
  }
  const bool is_usual = header.k_form == pages.usual.k_form && header.v_form == pages.usual.v_form;
  const bool is_raw = header.k_form == pages.raw.k_form && header.v_form == pages.raw.v_form;
  if (header.magic != NKV_PAGE_MAGIC || header.version != NKV_PAGE_VERSION ||
      header.tenant != pages.tenant || header.head_dim != pages.head_dim ||
      header.value_dim != pages.value_dim || header.dtype != pages.dtype ||
      header.flags != pages.flags || !(is_usual || is_raw) ||
      header.k_exceptions > NKV_EXCEPTIONS || header.v_exceptions > NKV_EXCEPTIONS) {
    return NKV_STATUS_BAD_PAGE;
  }
  if (header.codec != NKV_CODEC_NONE) return NKV_STATUS_COLD_PAGE;
  page->places = is_usual ? &pages.usual : &pages.raw;
  if (page->places->total_bytes > pages.window_bytes - address) return NKV_STATUS_ADDRESS_FAULT;
  return NKV_STATUS_OK;
}

/// The digest's entry of a channel: the key of code c lies in [base + c, base + c + 1) steps.
struct ChannelStep {
  std::int32_t base;
  std::int32_t mantissa;  ///< A step is mantissa * 2^exponent.
  std::int32_t exponent;
};

NKV_KERNEL ChannelStep unpack_step(std::uint32_t entry, std::int32_t k_step_exponent) {
  const auto base = static_cast<std::int32_t>(entry & 0xFF);
  return {(base < 128 ? base : base - 256) * NKV_CODE_BASE_STEP,
          static_cast<std::int32_t>(8 + ((entry >> 8) & 7)),
          k_step_exponent - static_cast<std::int32_t>(entry >> 11)};
}

}  // namespace nearkv::cuda

// Bytes of the page after the one that is computed on, asked for ahead.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "page/page_view.hpp"

namespace nearkv {

// Always inline: files compiled for different instructions share them.

/// Asks for what lies in the page that begins at `next` where `here` lies in this one.
[[gnu::always_inline]] inline void fetch_alike(const PageView& page, const std::byte* next,
                                               std::span<const std::byte> here) {
  const std::byte* const from = next + (here.data() - page.start());
  for (std::size_t offset = 0; offset < here.size(); offset += NKV_BURST_BYTES) {
    __builtin_prefetch(from + offset, 0, 2);
  }
}

/// Asks for what is looked at before rows: the header, and `arrays`.
[[gnu::always_inline]] inline void fetch_head(const PageView& page, const std::byte* next,
                                              std::initializer_list<nkv_page_array> arrays) {
  fetch_alike(page, next, {page.start(), sizeof(nkv_page_header)});
  for (const nkv_page_array array : arrays) fetch_alike(page, next, page.bytes(array));
}

}  // namespace nearkv

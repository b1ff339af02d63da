// Pages as wholes: verify, wipe, copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/window.hpp"

namespace nearkv {

/// Verifies the header and every array of a page, attendable or compressed.
Status scrub_page(const Window& window, const nkv_page_entry& entry);

/// Makes the page unfindable, then zeroes all its bytes, durably at the next fence. A damaged
/// header does not say whose page it is, so such a page stays: kCorrupt.
Status erase_page(const Window& window, const nkv_page_entry& entry);

/// A page on its way to a new place.
struct MovedPage {
  nkv_page_entry source{};
  nkv_page_entry destination{};  ///< Gets the exponents.
  std::uint64_t source_bytes = 0;
  std::span<std::byte> slot;  ///< The new place.
  std::uint32_t bytes = 0;    ///< Of the new page.
  std::uint8_t flags = 0;     ///< For publish_page().
};

/// Verifies the source and copies it to the slot, all but the first 8 bytes: nobody can find the
/// page before publish_page(). The two places do not overlap.
Status copy_page(const Window& window, MovedPage* page);

/// Pages as TRANSCODE, SCRUB, ERASE and COPY meet them: compressed ones included. The whole page
/// lies inside the window when this returns kOk; `bytes` is its size.
Status inspect_page(const Window& window, const nkv_page_entry& entry, nkv_page_header* header,
                    std::uint64_t* bytes);

}  // namespace nearkv

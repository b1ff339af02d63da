// Pages as wholes: verify, wipe, copy.
#pragma once

#include <cstdint>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/window.hpp"

namespace nearkv {

/// Verifies the header and every array of a page, attendable or compressed.
Status scrub_page(const Window& window, const nkv_page_entry& entry);

/// Makes the page unfindable, then zeroes all its bytes. A damaged header does not say whose page
/// it is, so such a page stays: kCorrupt.
Status erase_page(const Window& window, const nkv_page_entry& entry);

/// Copies a page to `destination->page`, which it must not overlap, under destination's generation
/// and fills in the exponents. The payload's checksums go along, unverified.
Status copy_page(const Window& window, const nkv_page_entry& source, nkv_page_entry* destination);

/// Pages as TRANSCODE, SCRUB, ERASE and COPY meet them: compressed ones included. The whole page
/// lies inside the window when this returns kOk; `bytes` is its size.
Status inspect_page(const Window& window, const nkv_page_entry& entry, nkv_page_header* header,
                    std::uint64_t* bytes);

}  // namespace nearkv

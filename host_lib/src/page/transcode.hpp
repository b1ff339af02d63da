// A page in another codec, by way of its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nearkv/status.hpp"
#include "page/cold_page.hpp"
#include "page/maintain.hpp"
#include "page/window.hpp"

namespace nearkv {

/// One thread at a time; reuse saves allocations.
class Transcoder {
 public:
  /// Verifies and decodes the source and writes it in `codec` to the slot, all but the first 8
  /// bytes: nobody can find the page before publish_page(). Statuses are those of TRANSCODE.
  Status transcode(const Window& window, std::uint8_t codec, MovedPage* page);

 private:
  Status read_rows(const Window& window, const nkv_page_entry& entry, nkv_page_header* header);
  Status write_attendable(const nkv_page_header& header, Persistence* persistence, MovedPage* page);
  Status write_cold(const nkv_page_header& header, std::uint8_t codec, Persistence* persistence,
                    MovedPage* page);

  ColdPageCodec cold_;
  PageRows rows_;
  std::vector<std::byte> scaled_keys_;  ///< Key rows, each followed by its scale.
};

}  // namespace nearkv

// Where in a device's memory a page of a pool lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "nkv_abi.h"

namespace nearkv::test {

/// A sequence's page of a KV head that begins with this token, of whichever layer is found first.
/// Throws if there is none.
inline std::byte* find_page(std::span<std::byte> memory, std::uint64_t sequence,
                            std::uint16_t kv_head, std::uint32_t first_token) {
  for (std::size_t at = 0; at + sizeof(nkv_page_header) <= memory.size();
       at += NKV_PAGE_GRAIN_BYTES) {
    nkv_page_header header{};
    std::memcpy(&header, memory.data() + at, sizeof(header));
    if (header.magic == NKV_PAGE_MAGIC && header.sequence_id == sequence &&
        header.kv_head == kv_head && header.first_token == first_token) {
      return memory.data() + at;
    }
  }
  throw std::runtime_error("the page is not in the device's memory");
}

}  // namespace nearkv::test

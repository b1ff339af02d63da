// A ZSTD frame by the letter of RFC 8878, bit by bit: what a decoder may accept.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "codec_data.hpp"

namespace nearkv::rtl_test {

/// What a frame is made of, by name, and how often: blocks, literals, tables.
using ZstdParts = std::map<std::string, std::size_t>;

/// The content of `frame`, if it is one whole frame of exactly `size` bytes of content, without
/// checksum and dictionary id, that the RFC does not call corrupted. Adds to `parts` what it saw.
[[nodiscard]] std::optional<Bytes> decode_strictly(const Bytes& frame, std::size_t size,
                                                   ZstdParts* parts = nullptr);

}  // namespace nearkv::rtl_test

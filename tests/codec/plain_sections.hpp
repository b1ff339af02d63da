// What PLANES_LZ4 compresses, from the host library itself.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "blocks.hpp"
#include "codec/planes.hpp"
#include "codec/workspace.hpp"

namespace nearkv::test {

/// Compresses nothing.
inline constexpr codec::PlaneCompressor kStoresPlain{
    .pairs_tokens = false,
    .compress = [](std::span<const std::byte>, std::span<std::byte>,
                   codec::Workspace&) { return std::size_t{0}; },
    .expand = [](std::span<const std::byte>, std::span<std::byte>,
                 codec::Workspace&) { return false; }};

/// The sections of a bf16 block in PLANES_LZ4 before they are compressed: references, then planes.
inline std::vector<std::byte> plain_sections(const BlockShape& shape, const Words& words) {
  CodecWorkspace workspace;
  std::vector<std::byte> block(codec::planes_bound(shape));
  const std::size_t block_bytes =
      codec::encode_planes(kStoresPlain, shape, words, block, *workspace.get());
  // References, the four high delta bits, then a plane each; 0: all zeros.
  std::vector<std::size_t> sizes{shape.dim, std::size_t{32} * shape.dim};
  sizes.resize(2 + 12, std::size_t{8} * shape.dim);
  std::vector<std::byte> plain;
  std::size_t at = 2 * sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, block.data() + 2 * i, sizeof(stored));
    EXPECT_TRUE(stored == 0 || stored == sizes[i]);
    const auto begin = block.begin() + static_cast<std::ptrdiff_t>(at);
    plain.insert(plain.end(), begin, begin + stored);
    plain.resize(plain.size() + sizes[i] - stored);
    at += stored;
  }
  EXPECT_EQ(at, block_bytes);
  return plain;
}

}  // namespace nearkv::test

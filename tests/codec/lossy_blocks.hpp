// Blocks for the lossy codecs, and what the host library makes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "blocks.hpp"
#include "nearkv/codec.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

inline constexpr Codec kLossyCodecs[] = {Codec::kInt8, Codec::kInt4, Codec::kFp8};

/// Nothing if the host library does not take the rows.
inline std::optional<std::vector<std::byte>> encoded_by_host(Codec codec, const BlockShape& shape,
                                                             std::span<const std::byte> rows) {
  CodecWorkspace workspace;
  std::vector<std::byte> block(encoded_bound(codec, shape));
  std::size_t size = 0;
  if (encode(codec, shape, rows, block, &size, workspace) != Status::kOk) return std::nullopt;
  block.resize(size);
  return block;
}

/// Nothing if the host library refuses the block.
inline std::optional<std::vector<std::byte>> decoded_by_host(Codec codec, const BlockShape& shape,
                                                             std::span<const std::byte> block) {
  CodecWorkspace workspace;
  std::vector<std::byte> rows(block_bytes(shape));
  if (decode(codec, shape, block, rows, workspace) != Status::kOk) return std::nullopt;
  return rows;
}

/// Elements around the least normal numbers, where differences are subnormal.
inline Words tiny_words(std::size_t dim, unsigned round, Random& random) {
  Words words(kBlockTokens * dim);
  for (std::uint16_t& word : words) {
    const auto magnitude = static_cast<std::uint16_t>(random() % (0x100 + round * 0x20));
    word = static_cast<std::uint16_t>(magnitude | (random() % 2 == 0 ? 0 : 0x8000));
  }
  return words;
}

/// One element that some codec refuses, or the greatest that all take.
inline Words words_with_one_odd(std::size_t dim, unsigned round, Random& random) {
  Words words = make_block(Distribution::kGaussian, dim, round);
  constexpr std::uint16_t kOdd[] = {0x7F80, 0xFF80, 0x7FC1, 0x7E80, 0xFE80, 0x7E7F};
  words[random() % words.size()] = kOdd[round % 6];
  return words;
}

/// Any bytes; in three of four rounds parameters and codes are mostly good ones.
inline std::vector<std::byte> any_bytes(std::size_t count, unsigned round, Random& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random() & (round % 4 == 0 ? 0xff : 0x6f));
  }
  return bytes;
}

}  // namespace nearkv::test

// LZ4 blocks as liblz4 and the format's description have them.
#pragma once

#include <gtest/gtest.h>
#include <lz4.h>
#include <lz4hc.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "codec/codec_data.hpp"

namespace nearkv::rtl_test {

/// What a block expands to by the format's description; nothing if it is none of that size.
struct Reference {
  std::optional<Bytes> plain;
  bool has_offset_zero = false;  // The format forbids it; liblz4 lets it pass.
};

inline Reference decode_plainly(const Bytes& block, std::size_t size) {
  Reference result;
  Bytes plain;
  std::size_t at = 0;
  const auto length = [&](std::size_t nibble) -> std::optional<std::size_t> {
    std::size_t sum = nibble;
    if (nibble < 15) return sum;
    for (std::uint8_t byte = 255; byte == 255; ++at) {
      if (at == block.size()) return std::nullopt;
      byte = block[at];
      sum += byte;
    }
    return sum;
  };
  while (at < block.size()) {
    const std::uint8_t token = block[at++];
    const auto literals = length(token >> 4);
    if (!literals || *literals > block.size() - at || *literals > size - plain.size())
      return result;
    const auto begin = block.begin() + static_cast<std::ptrdiff_t>(at);
    plain.insert(plain.end(), begin, begin + static_cast<std::ptrdiff_t>(*literals));
    at += *literals;
    if (at == block.size()) {
      if (plain.size() == size) result.plain = plain;
      return result;
    }
    if (plain.size() + 12 > size || at + 2 > block.size()) return result;
    const std::size_t offset = block[at] + 256U * block[at + 1];
    at += 2;
    const auto copied = length(token & 15);
    if (offset == 0) result.has_offset_zero = true;
    if (!copied || offset == 0 || offset > plain.size()) return result;
    if (plain.size() + *copied + 4 + 5 > size) return result;
    for (std::size_t i = 0; i < *copied + 4; ++i) plain.push_back(plain[plain.size() - offset]);
  }
  return result;
}

inline Reference decode_by_liblz4(const Bytes& block, std::size_t size) {
  Reference result = decode_plainly(block, size);
  Bytes plain(size + 1);
  const int written = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                          reinterpret_cast<char*>(plain.data()),
                                          static_cast<int>(block.size()), static_cast<int>(size));
  plain.resize(size);
  const bool is_good = written == static_cast<int>(size);
  if (!result.has_offset_zero) {
    EXPECT_EQ(is_good, result.plain.has_value()) << "the plain decoder and liblz4 disagree";
    if (is_good && result.plain) {
      EXPECT_EQ(plain, *result.plain);
    }
  }
  return result;
}

inline Bytes compress(const Bytes& plain, bool tries_hard = false) {
  Bytes block(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
  const auto* const source = reinterpret_cast<const char*>(plain.data());
  auto* const target = reinterpret_cast<char*>(block.data());
  const int size = static_cast<int>(plain.size());
  const int room = static_cast<int>(block.size());
  const int written = tries_hard ? LZ4_compress_HC(source, target, size, room, LZ4HC_CLEVEL_MAX)
                                 : LZ4_compress_default(source, target, size, room);
  block.resize(static_cast<std::size_t>(written));
  return block;
}

/// A block of liblz4's of so many bytes; of some rounds it is cut, of most some bytes are others.
inline Bytes maybe_damaged_block(test::Random& random, std::size_t size, unsigned round) {
  Bytes block = compress(some_data(random, size, round % 8), round % 3 == 0);
  if (round % 4 == 0) block.resize(random() % block.size());
  for (unsigned hit = round % 5; hit > 0 && !block.empty(); --hit) {
    const std::uint8_t values[] = {0, 1, 255, static_cast<std::uint8_t>(random())};
    block[random() % block.size()] = values[random() % 4];
  }
  return block;
}

/// What follows a nibble of 15.
inline void put_length(Bytes& block, std::size_t rest) {
  for (; rest >= 255; rest -= 255) block.push_back(255);
  block.push_back(static_cast<std::uint8_t>(rest));
}

/// A block of one match of this offset and length between literals, `tail` of them (at most 14)
/// behind it.
inline Bytes block_of_match(std::size_t offset, std::size_t length, std::size_t literals,
                            std::size_t tail = 8) {
  Bytes block;
  block.push_back(static_cast<std::uint8_t>(std::min<std::size_t>(literals, 15) << 4 |
                                            std::min<std::size_t>(length - 4, 15)));
  if (literals >= 15) put_length(block, literals - 15);
  for (std::size_t i = 0; i < literals; ++i) block.push_back(static_cast<std::uint8_t>(7 * i + 1));
  block.push_back(static_cast<std::uint8_t>(offset));
  block.push_back(static_cast<std::uint8_t>(offset >> 8));
  if (length - 4 >= 15) put_length(block, length - 4 - 15);
  block.push_back(static_cast<std::uint8_t>(tail << 4));
  for (std::size_t i = 0; i < tail; ++i) block.push_back(static_cast<std::uint8_t>(0xf0 + i));
  return block;
}

}  // namespace nearkv::rtl_test

// What the codecs need besides their input and output.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nearkv/codec.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace nearkv::codec {

/// Buffers for the widest block, and libzstd's state. `words` holds the block that is encoded or
/// decoded; everything else is free for the codec to use.
class Workspace {
 public:
  static constexpr std::size_t kMaxElements = kBlockTokens * kMaxBlockDim;

  /// The block's elements, widened to 16 bits.
  [[nodiscard]] std::span<std::uint16_t> words(std::size_t count) {
    return std::span(words_).first(count);
  }
  /// The same number of elements again, after a transform.
  [[nodiscard]] std::span<std::uint16_t> transformed(std::size_t count) {
    return std::span(transformed_).first(count);
  }
  /// Room for 16 bits of every element and a byte of every channel.
  [[nodiscard]] std::span<std::uint64_t> plain() { return plain_; }

  /// Made by the first call; null when there is no memory.
  [[nodiscard]] ZSTD_CCtx_s* zstd_encoder() noexcept;
  [[nodiscard]] ZSTD_DCtx_s* zstd_decoder() noexcept;

 private:
  struct ZstdDeleter {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };

  alignas(64) std::array<std::uint16_t, kMaxElements> words_;
  alignas(64) std::array<std::uint16_t, kMaxElements> transformed_;
  alignas(64) std::array<std::uint64_t, (2 * kMaxElements + kMaxBlockDim) / 8> plain_;
  std::unique_ptr<ZSTD_CCtx_s, ZstdDeleter> zstd_encoder_;
  std::unique_ptr<ZSTD_DCtx_s, ZstdDeleter> zstd_decoder_;
};

}  // namespace nearkv::codec

// RESIDUAL: layout of an encoded block, and the arithmetic that encoder and decoder share.
//
// A key lies in a cell of its channel's quantiser; a channel's unit is 2^-4 of the power of two in
// its step, so that a cell is 16 * mantissa units wide. Away from zero every bf16 number of a cell
// is a multiple of 2^known_bits units, and only the bits above those are stored. Next to zero bf16
// is finer than a unit: what eight bits leave open follows after the token's last cell.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codec/block_codec.hpp"
#include "codec/code_planes.hpp"
#include "codec/digest.hpp"
#include "nearkv/codec.hpp"

namespace nearkv::codec {

/// A unit is this many powers of two below the one in a step.
inline constexpr int kUnitBits = 4;

/// Bits that hold any offset inside a cell.
inline constexpr unsigned kOffsetBits = 8;

/// Offsets of so many cells go through a 32-bit word together.
inline constexpr std::size_t kCellsAtATime = 32 / kOffsetBits;

/// Cells touching zero: the offset that stands for +0; real ones end at 16 * 15.
inline constexpr unsigned kZeroOffset = 255;

/// Cells touching zero: the offset of what is smaller than a unit or no normal number, and the bits
/// of the pattern that follows it.
inline constexpr unsigned kRawOffset = 0;
inline constexpr unsigned kRawBits = 16;

/// A token's packed bits if every cell touched zero and needed all that it can.
inline constexpr std::size_t kMaxPackedBytes = kMaxBlockDim * (kOffsetBits + kRawBits) / 8;

/// Byte offsets of the parts of an encoded block, in their order.
struct ResidualLayout {
  static constexpr std::size_t kStepExponent = 0;  ///< i16 k_step_exponent; then 6 zero bytes.
  static constexpr std::size_t kRawTokens = 8;     ///< u64: bit t, stream t is the plain row.
  static constexpr std::size_t kHeaderBytes = 16;
  static constexpr std::size_t kStreamUnitBytes = 2;

  explicit constexpr ResidualLayout(std::size_t dim)
      : plane_bytes(kBlockTokens / 8 * dim),
        nibble_row_bytes(dim / 2),
        raw_row_bytes(sizeof(std::uint16_t) * dim),
        digest(kHeaderBytes),
        planes(digest + sizeof(std::uint16_t) * dim),
        nibbles(planes + kCodePlanes * plane_bytes),
        stream_ends(nibbles + kBlockTokens * nibble_row_bytes),
        streams(stream_ends + kBlockTokens * sizeof(std::uint16_t)) {}

  std::size_t plane_bytes;
  std::size_t nibble_row_bytes;
  std::size_t raw_row_bytes;  ///< Also the longest stream.

  std::size_t digest;       ///< As the page array K_DIGEST.
  std::size_t planes;       ///< As the page arrays K_PLANE0..3.
  std::size_t nibbles;      ///< [64][dim / 2], see pack_nibbles().
  std::size_t stream_ends;  ///< u16 [64]: end of each token's stream, in kStreamUnitBytes.
  std::size_t streams;
};

/// A block's channels, one array per quantity so that loops over channels are vectors.
struct ResidualChannels {
  explicit ResidualChannels(std::span<const ChannelStep> steps);

  std::array<std::int16_t, kMaxBlockDim> mantissa;
  std::array<std::int16_t, kMaxBlockDim> origin;          ///< Start of code 0, in 2^step_exponent.
  std::array<std::uint32_t, kMaxBlockDim> unit_exponent;  ///< Of binary32, as added to its bits.
};

/// Where one token's cells lie and what that tells of the keys inside.
struct TokenCells {
  /// `codes` are one token's.
  void locate(const ResidualChannels& channels, std::span<const std::uint8_t> codes);

  /// Calls action(channel) for the cells that touch zero, in ascending order.
  template <typename Action>
  void for_each_at_zero(std::size_t dim, Action action) const {
    for (std::size_t begin = 0; begin < dim; begin += sizeof(std::uint64_t)) {
      std::uint64_t flags;
      std::memcpy(&flags, touches_zero.data() + begin, sizeof flags);
      for (; flags != 0; flags &= flags - 1) {
        action(begin + static_cast<std::size_t>(std::countr_zero(flags)) / 8);
      }
    }
  }

  /// Lower edges, in 2^step_exponent.
  std::array<std::int16_t, kMaxBlockDim> start;
  /// How many low bits of an offset follow from its cell.
  std::array<std::uint8_t, kMaxBlockDim> known_bits;
  /// 1 for the cells on either side of zero, 0 for others.
  std::array<std::uint8_t, kMaxBlockDim> touches_zero;
};

/// Bits that follow for a cell touching zero whose stored offset is this.
[[nodiscard]] unsigned extension_bits(unsigned offset);

Status encode_residual(const BlockShape& shape, std::span<const std::uint16_t> words,
                       std::span<std::byte> out, std::size_t* encoded_bytes, Workspace& workspace);

Status decode_residual(const BlockShape& shape, std::span<const std::byte> encoded,
                       std::span<std::uint16_t> words, Workspace& workspace);

}  // namespace nearkv::codec

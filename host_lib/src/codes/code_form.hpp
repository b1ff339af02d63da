// Constants of codes, an approximate form of a page's rows (emulator/model/ARITHMETIC.md, section
// 11).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nkv_abi.h"

namespace nearkv {

/// How the rows of a tensor are coded.
struct CodeForm {
  int planes;                ///< B.
  int factor_step;           ///< One step of a factor, in sixteenths of an octave.
  std::int64_t cells_per_z;  ///< 2^16 cells per mean |z| and channel.
  std::array<int, 4> ratio;  ///< Of b planes at [b - 1], in 1/256.
};

inline constexpr CodeForm kKeyCodes{NKV_KEY_CODE_PLANES, 2, 186750, {276, 267, 259, 256}};
inline constexpr CodeForm kValueCodes{NKV_VALUE_CODE_PLANES, 4, 96833, {281, 265, 256, 0}};

inline constexpr int kTopFactor = 15;  ///< The factor that is its tensor's top.

/// round(2^11 * 2^(i/16)).
inline constexpr std::array<std::int32_t, 16> kOctaves = {
    2048, 2139, 2233, 2332, 2435, 2543, 2656, 2774, 2896, 3025, 3158, 3298, 3444, 3597, 3756, 3922};

/// 2^(sixteenths / 16) as mantissa * 2^power.
struct Octaves {
  std::int32_t mantissa;
  int power;
};
[[nodiscard]] constexpr Octaves octaves(int sixteenths) {
  return {kOctaves[static_cast<std::size_t>(sixteenths & 15)], (sixteenths >> 4) - 11};
}

/// ceil(2^15 * 2^(i/16)), i = 1..15; what no 16 bits reach, behind them.
inline constexpr std::array<std::uint32_t, 16> kLogSteps = {
    34219, 35734, 37316, 38968, 40694, 42495, 44377, 46341,
    48393, 50536, 52773, 55109, 57549, 60097, 62758, 65536};

/// Steps surely reached, by the 6 leading bits: up to the next ones there is at most one more.
inline constexpr std::array<std::uint8_t, 32> kFirstLogStep = [] {
  std::array<std::uint8_t, 32> first{};
  for (std::uint32_t i = 0; i < first.size(); ++i) {
    while (kLogSteps[first[i]] <= (32 + i) << 10) ++first[i];
  }
  return first;
}();

/// floor(16 log2 value) by the 16 leading bits; value > 0.
[[nodiscard]] constexpr int log2_sixteenths(std::uint64_t value) {
  const auto bits = static_cast<int>(std::bit_width(value));
  const auto top =
      static_cast<std::uint32_t>(bits > 16 ? value >> (bits - 16) : value << (16 - bits));
  const unsigned first = kFirstLogStep[(top >> 10) - 32];
  return 16 * (bits - 1) + static_cast<int>(first + (top >= kLogSteps[first] ? 1U : 0U));
}

/// Per channel -1 where a set's sign is minus, else 0. `set` is below SIGN_SETS.
[[nodiscard]] std::span<const std::int16_t, NKV_MAX_HEAD_DIM> minus_signs(unsigned set);

/// The set of the page at a position, in pages, of its sequence. `run` is APPEND's `sign_run`.
[[nodiscard]] constexpr std::uint8_t sign_set_of(std::uint32_t page, std::uint8_t run) {
  return static_cast<std::uint8_t>(page / (run == 0 ? NKV_SIGN_RUN : run) % NKV_SIGN_SETS);
}

/// A block of channels that is transformed by itself.
struct CodeBlock {
  std::size_t begin;
  std::size_t size;
  std::int16_t scale;  ///< At 15 fraction bits; 0: one.
};

/// log2 of the last block of a row, which is the smallest one.
[[nodiscard]] constexpr int log2_last_block(std::size_t channels) {
  return std::countr_zero(channels);
}

/// Whether a row is one block, sums over which fit 32 bits.
[[nodiscard]] constexpr bool is_one_short_block(std::size_t channels) {
  return std::has_single_bit(channels) && channels <= 256;
}

/// The block that begins at channel `begin` of a row.
[[nodiscard]] constexpr CodeBlock code_block(std::size_t channels, std::size_t begin) {
  constexpr std::array<std::int16_t, 6> kScales = {0, 23170, 16384, 11585, 8192, 5793};
  const std::size_t size = std::bit_floor(channels - begin);
  const int ratio = std::countr_zero(size) - log2_last_block(channels);
  return {begin, size, kScales[static_cast<std::size_t>(ratio)]};
}

}  // namespace nearkv

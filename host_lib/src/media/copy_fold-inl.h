// The loop that every width shares. Included by one source per width, each with its own `Vector`,
// inside an anonymous namespace: sources are compiled for different processors.
//
// Folding: the CRC of a message is its remainder by the polynomial P, so a register A that lies D
// bits before the data B may be replaced by A x^D mod P, added to B. The products of a carry-less
// multiplication are reflected, as CRC32C is, which makes them one bit short: the exponents below
// are D + 63 and D - 1 instead of D + 64 and D, for the halves that come first and second.
#pragma once

#include <isa-l/crc.h>

#include <cstring>

#include "media/copy_fold.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kPrefetchBytes = 1024;  // ahead: measured, flat from 1 KiB to 2 KiB

constexpr std::uint64_t x_to_the(unsigned exponent) {
  std::uint32_t remainder = 1;
  for (unsigned i = 0; i < exponent; ++i) {
    remainder = (remainder << 1) ^ (0x1EDC6F41U & (0U - (remainder >> 31)));
  }
  std::uint64_t reflected = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    reflected |= std::uint64_t{remainder >> bit & 1} << (63 - bit);
  }
  return reflected;
}

/// What moves a 128-bit register `bits` further along the message.
struct FoldConstants {
  std::uint64_t first_half;
  std::uint64_t second_half;
};
constexpr FoldConstants fold_by(unsigned bits) { return {x_to_the(bits + 63), x_to_the(bits - 1)}; }

template <typename Vector, StoreKind kStores>
std::uint32_t copy_fold_blocks(std::byte* __restrict to, const std::byte* __restrict from,
                               std::size_t bytes, std::uint32_t state) {
  constexpr std::size_t kWidth = Vector::kBytes;
  constexpr std::size_t kLanes = Vector::kRegisters;
  constexpr std::size_t kStep = kWidth * kLanes;
  static_assert(kFoldBlockBytes % kStep == 0);
  constexpr FoldConstants kByStep = fold_by(8 * kStep);
  constexpr FoldConstants kBy128 = fold_by(128);

  const auto by_step = Vector::constants(kByStep);
  typename Vector::Register sums[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums[lane] = Vector::load(from + kWidth * lane);
    Vector::template store<kStores>(sums[lane], to + kWidth * lane);
  }
  sums[0] = Vector::add_low(sums[0], state);
  for (std::size_t at = kStep; at < bytes; at += kStep) {
    for (std::size_t line = 0; line < kStep; line += 64) {
      __builtin_prefetch(from + at + kPrefetchBytes + line);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto data = Vector::load(from + at + kWidth * lane);
      Vector::template store<kStores>(data, to + at + kWidth * lane);
      sums[lane] = Vector::fold(sums[lane], by_step, data);
    }
  }

  const auto by_128 = Vector::narrow_constants(kBy128);
  auto sum = Vector::part(sums[0], 0);
  for (std::size_t part = 1; part < kStep / 16; ++part) {
    constexpr std::size_t kParts = kWidth / 16;
    sum = Vector::narrow_fold(sum, by_128, Vector::part(sums[part / kParts], part % kParts));
  }
  alignas(16) unsigned char last[16];
  Vector::narrow_store(sum, last);
  return ::crc32_iscsi(last, sizeof last, 0);
}

}  // namespace
}  // namespace nearkv

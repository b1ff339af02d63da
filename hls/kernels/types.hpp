// What all kernels share: the memory's bursts, how much stands side by side, and what passes
// between two processes of a kernel.
#ifndef NEARKV_HLS_TYPES_HPP_
#define NEARKV_HLS_TYPES_HPP_

#include <ap_int.h>
#include <hls_stream.h>

#include <cstdint>

#include "nkv_abi.h"

namespace nearkv::kernels {

using ::hls::stream;

using Burst = ap_uint<8 * NKV_BURST_BYTES>;
using TokenMask = ap_uint<NKV_PAGE_TOKENS>;  ///< Bit t is token t of a page.

constexpr int kTokens = NKV_PAGE_TOKENS;
constexpr int kBurstBytes = NKV_BURST_BYTES;
constexpr int kRows = 8;           ///< Query rows side by side, as in the RTL.
constexpr int kMaxChannels = 128;  ///< Of a head, as in the RTL; any multiple of kChannelStep.
constexpr int kChannelStep = 16;
constexpr int kLanes = 32;  ///< Channels side by side: a burst of bf16.
constexpr int kMaxWords = kMaxChannels / kLanes;
constexpr int kMaxPages = NKV_MAX_TOKENS / NKV_PAGE_TOKENS;

using QueryInteger = ap_int<24>;  ///< q̄ (ARITHMETIC.md 1.1)
using KeyInteger = ap_int<27>;    ///< k̄ (1.2)
using ValueInteger = ap_int<25>;  ///< v̄ (1.3)
using Score = ap_int<60>;         ///< S (1.5)

/// Some channels of a row.
template <typename T>
struct Word {
  T lane[kLanes];
};

/// One number for each query row.
template <typename T>
struct PerRow {
  T row[kRows];
};

/// Where a page keeps an array, in bursts from its start.
struct ArrayPlace {
  std::uint32_t first;
  std::uint32_t bursts;
};

/// Words of kLanes channels that a row takes.
constexpr int words_of(int channels) { return (channels + kLanes - 1) / kLanes; }

/// A number as bits of a burst, counted in numbers of its size.
template <int Bits>
ap_uint<Bits> part_of(const Burst& burst, int index) {
  return burst.range(Bits * index + Bits - 1, Bits * index);
}

template <int Bits>
void set_part(Burst& burst, int index, const ap_uint<Bits>& part) {
  burst.range(Bits * index + Bits - 1, Bits * index) = part;
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_TYPES_HPP_

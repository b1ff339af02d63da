// What a device says that it offers, for suites that also run on devices that lack some of it. A
// test that needs more prints one of the texts here and skips.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nearkv/device.hpp"
#include "nkv_abi.h"

namespace nearkv::test {

/// Whether it has a feature: one of NKV_FEATURE_.
inline bool offers_feature(Device& device, std::uint64_t feature) {
  return (device.read_csr(NKV_REG_FEATURES) & feature) != 0;
}

/// Why a test of a mode is skipped.
inline std::string has_no(const std::string& mode) {
  return "skipped: this device has no " + mode + " (register FEATURES)";
}

/// The most query rows of a command.
inline std::size_t largest_group(Device& device) {
  constexpr std::uint64_t kMask = NKV_REG_LIMITS_GROUP_MASK >> NKV_REG_LIMITS_GROUP_SHIFT;
  return device.read_csr(NKV_REG_LIMITS) >> NKV_REG_LIMITS_GROUP_SHIFT & kMask;
}

/// The widest rows that it takes, in channels.
inline std::size_t widest_head(Device& device) {
  constexpr std::uint64_t kMask = NKV_REG_LIMITS_HEAD_DIM_MASK >> NKV_REG_LIMITS_HEAD_DIM_SHIFT;
  return device.read_csr(NKV_REG_LIMITS) >> NKV_REG_LIMITS_HEAD_DIM_SHIFT & kMask;
}

inline std::string too_wide(Device& device, std::size_t channels) {
  return "skipped: heads of " + std::to_string(channels) + " channels, and this device takes " +
         std::to_string(widest_head(device)) + " (register LIMITS)";
}

/// Whether a device both builds and reads pages of a codec.
inline bool offers_codec(Device& device, std::uint8_t codec) {
  const std::uint64_t codecs = device.read_csr(NKV_REG_CODECS);
  return (codecs >> NKV_REG_CODECS_BUILT_SHIFT >> codec & 1) != 0 &&
         (codecs >> NKV_REG_CODECS_READ_SHIFT >> codec & 1) != 0;
}

/// Those that it offers and that give back every bit.
inline std::vector<std::uint8_t> lossless_codecs(Device& device) {
  std::vector<std::uint8_t> codecs;
  for (const std::uint8_t codec : {NKV_CODEC_PLANES_ZSTD, NKV_CODEC_PLANES_LZ4}) {
    if (offers_codec(device, codec)) codecs.push_back(codec);
  }
  return codecs;
}

inline constexpr const char* kNoLosslessCodec =
    "skipped: this device builds pages of no lossless codec (register CODECS)";

/// A lossless one where there is one, else INT8.
inline std::uint8_t best_codec(Device& device) {
  const std::vector<std::uint8_t> lossless = lossless_codecs(device);
  return lossless.empty() ? std::uint8_t{NKV_CODEC_INT8} : lossless.front();
}

}  // namespace nearkv::test

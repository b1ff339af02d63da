// Codecs of compressed pages, for suites that also run on devices that lack some.
#pragma once

#include <cstdint>
#include <vector>

#include "nearkv/device.hpp"
#include "nkv_abi.h"

namespace nearkv::test {

/// Whether a device both builds and reads pages of a codec.
inline bool offers_codec(Device& device, std::uint8_t codec) {
  const std::uint64_t codecs = device.read_csr(NKV_REG_CODECS);
  return (codecs >> NKV_REG_CODECS_BUILT_SHIFT >> codec & 1) != 0 &&
         (codecs >> NKV_REG_CODECS_READ_SHIFT >> codec & 1) != 0;
}

/// Those that it offers and that give back every bit; none of them: such a test prints
/// kNoLosslessCodec and skips.
inline std::vector<std::uint8_t> lossless_codecs(Device& device) {
  std::vector<std::uint8_t> codecs;
  for (const std::uint8_t codec :
       {NKV_CODEC_PLANES_ZSTD, NKV_CODEC_RESIDUAL, NKV_CODEC_PLANES_LZ4}) {
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

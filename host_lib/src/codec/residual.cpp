#include "codec/residual.hpp"

#include <algorithm>
#include <bit>

namespace nearkv::codec {
namespace {

bool supports(const BlockShape& shape) {
  return shape.tensor == Tensor::kKeys && shape.dtype == RowDtype::kBf16;
}

std::size_t bound(const BlockShape& shape) {
  const ResidualLayout layout(shape.dim);
  return layout.streams + kBlockTokens * layout.raw_row_bytes;
}

}  // namespace

ResidualChannels::ResidualChannels(std::span<const ChannelStep> steps) {
  for (std::size_t c = 0; c < steps.size(); ++c) {
    const ChannelStep& step = steps[c];
    mantissa[c] = step.mantissa;
    origin[c] = static_cast<std::int16_t>(kBaseSteps * step.base * step.mantissa);
    unit_exponent[c] = static_cast<std::uint32_t>(step.exponent - kUnitBits) << 23;
  }
}

void TokenCells::locate(const ResidualChannels& channels, std::span<const std::uint8_t> codes) {
  // A bf16 number of magnitude 2^n units is a multiple of 2^(n - 7) units.
  constexpr int kBinary32Bias = 127;
  constexpr int kGranularity = 7 - kUnitBits;
  for (std::size_t c = 0; c < codes.size(); ++c) {
    const int lower = codes[c] * channels.mantissa[c] + channels.origin[c];
    const int nearest = std::max(lower, -lower - channels.mantissa[c]);
    const auto log2 =
        static_cast<std::int32_t>(
            std::bit_cast<std::uint32_t>(static_cast<float>(std::max(nearest, 1))) >> 23) -
        kBinary32Bias;
    const int known = std::min(std::max(log2 - kGranularity, 0), static_cast<int>(kOffsetBits));
    start[c] = static_cast<std::int16_t>(lower);
    known_bits[c] = static_cast<std::uint8_t>(known);
    touches_zero[c] = static_cast<std::uint8_t>(nearest <= 0);
  }
}

unsigned extension_bits(unsigned offset) {
  if (offset == kRawOffset) return kRawBits;
  return kOffsetBits - static_cast<unsigned>(std::bit_width(offset));
}

const BlockCodec residual_codec{supports, bound, encode_residual, decode_residual};

}  // namespace nearkv::codec

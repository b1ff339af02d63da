// FP8: E4M3FN codes with a power-of-two scale per channel of K or token of V.
#include <algorithm>
#include <array>
#include <bit>

#include "codec/block_codec.hpp"
#include "codec/element_bytes.hpp"
#include "codec/groups.hpp"

namespace nearkv::codec {
namespace {

constexpr int kBf16Bias = 127;
constexpr unsigned kBf16MantissaBits = 7;
constexpr std::uint16_t kBf16Mantissa = (1 << kBf16MantissaBits) - 1;
constexpr std::uint16_t kGreatestFinite = kBf16Exponent - 1;

constexpr int kBias = 7;
constexpr unsigned kMantissaBits = 3;
constexpr unsigned kDroppedBits = kBf16MantissaBits - kMantissaBits;
constexpr std::uint8_t kSign = 0x80;
constexpr std::uint8_t kNan = 0x7F;

// 448 = 1.75 * 2^8 is the greatest number.
constexpr int kGreatestExponent = 8;
constexpr std::uint16_t kGreatestMantissa = 0x60;  // 0.75 in bf16's fraction.

// A scale 2^x is stored as x plus this; 0 stands for a group of zeros.
constexpr int kScaleBias = 135;

bool supports(const BlockShape& shape) { return shape.dtype == RowDtype::kBf16; }

std::size_t encoded_size(const BlockShape& shape) {
  return group_count(shape) + kBlockTokens * shape.dim;
}

// The least scale under which the range stays within +-448.
std::uint8_t scale_for(const Range& range) {
  const auto greatest =
      static_cast<std::uint16_t>(std::max(range.low & kBf16Magnitude, range.high & kBf16Magnitude));
  if (greatest == 0) return 0;
  const int exponent = (greatest >> kBf16MantissaBits) - kBf16Bias;
  const int carry = (greatest & kBf16Mantissa) > kGreatestMantissa ? 1 : 0;
  return static_cast<std::uint8_t>(exponent - kGreatestExponent + carry + kScaleBias);
}

// Rounds to nearest even, which stays finite for a scale of scale_for().
std::uint8_t to_e4m3(std::uint16_t bits, std::uint8_t scale) {
  const std::uint32_t sign = (bits & kBf16Sign) >> 8;
  const std::int32_t exponent = (bits & kBf16Exponent) >> kBf16MantissaBits;
  const std::int32_t mantissa = bits & kBf16Mantissa;
  // Exponent field of the result; below 1 the number is subnormal.
  const std::int32_t field = exponent - kBf16Bias - (scale - kScaleBias) + kBias;

  const std::int32_t wide = (field << kBf16MantissaBits) | mantissa;
  constexpr std::int32_t kBelowHalf = (1 << (kDroppedBits - 1)) - 1;
  const std::int32_t normal = (wide + kBelowHalf + ((wide >> kDroppedBits) & 1)) >> kDroppedBits;

  // Adding this number leaves 2^-9, the subnormal unit, as the last bit of binary32.
  constexpr float kRounder = 0x1.8p14F;
  const std::int32_t raised = std::max(field + kBf16Bias - kBias, 1) << 23 | mantissa << 16;
  const std::int32_t subnormal =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(raised) + kRounder) -
      std::bit_cast<std::int32_t>(kRounder);
  const std::int32_t magnitude = field >= 1 ? normal : subnormal;
  return static_cast<std::uint8_t>(sign |
                                   static_cast<std::uint32_t>(exponent != 0 ? magnitude : 0));
}

// The codes' values as bf16, before scaling.
constexpr std::array<std::uint16_t, 256> kUnscaled = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned code = 0; code < table.size(); ++code) {
    const unsigned sign = (code & kSign) << 8;
    const unsigned field = (code & ~unsigned{kSign}) >> kMantissaBits;
    unsigned significand = (code & 7) | (field != 0 ? 8U : 0U);
    if (significand == 0) {
      table[code] = static_cast<std::uint16_t>(sign);
      continue;
    }
    unsigned exponent = kBf16Bias - kBias + std::max(field, 1U);
    for (; significand < 8; significand <<= 1) --exponent;
    table[code] = static_cast<std::uint16_t>(sign | exponent << kBf16MantissaBits |
                                             (significand & 7) << kDroppedBits);
  }
  return table;
}();

std::uint16_t from_e4m3(std::uint8_t code, std::uint8_t scale) {
  const std::uint16_t unscaled = kUnscaled[code];
  const int sign = unscaled & kBf16Sign;
  const int magnitude = unscaled & kBf16Magnitude;
  const int scaled = magnitude + (scale - kScaleBias) * (1 << kBf16MantissaBits);
  const bool vanishes = magnitude == 0 || scaled < (1 << kBf16MantissaBits);
  return static_cast<std::uint16_t>(sign | (vanishes ? 0 : std::min<int>(scaled, kGreatestFinite)));
}

Status encode(const BlockShape& shape, std::span<const std::uint16_t> words,
              std::span<std::byte> out, std::size_t* encoded_bytes, Workspace&) {
  if (!all_finite(words)) return Status::kBadArgument;
  std::array<Range, kMaxBlockDim> ranges;
  const std::size_t groups = group_count(shape);
  group_ranges(shape, words, std::span(ranges).first(groups));
  GroupParameter<std::uint8_t> scales(shape);
  for (std::size_t g = 0; g < groups; ++g) {
    scales[g] = scale_for(ranges[g]);
    out[g] = std::byte{scales[g]};
  }
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const auto row = words.subspan(token * shape.dim, shape.dim);
    const auto codes = out.subspan(groups + token * shape.dim, shape.dim);
    const auto scale = scales.row(token);
    for (std::size_t c = 0; c < row.size(); ++c) codes[c] = std::byte{to_e4m3(row[c], scale[c])};
  }
  *encoded_bytes = encoded_size(shape);
  return Status::kOk;
}

Status decode(const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::uint16_t> words, Workspace&) {
  if (encoded.size() != encoded_size(shape)) return Status::kCodecError;
  const std::size_t groups = group_count(shape);
  GroupParameter<std::uint8_t> scales(shape);
  for (std::size_t g = 0; g < groups; ++g) scales[g] = std::to_integer<std::uint8_t>(encoded[g]);
  unsigned any_nan = 0;
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const auto codes = encoded.subspan(groups + token * shape.dim, shape.dim);
    const auto row = words.subspan(token * shape.dim, shape.dim);
    const auto scale = scales.row(token);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const auto code = std::to_integer<std::uint8_t>(codes[c]);
      any_nan |= static_cast<unsigned>((code & 0x7F) == kNan);
      row[c] = from_e4m3(code, scale[c]);
    }
  }
  return any_nan != 0 ? Status::kCodecError : Status::kOk;
}

}  // namespace

const BlockCodec fp8_codec{supports, encoded_size, encode, decode};

}  // namespace nearkv::codec

// INT8 and INT4: element = zero + code * scale, per channel of K or token of V.
#include <algorithm>
#include <bit>

#include "codec/block_codec.hpp"
#include "codec/element_bytes.hpp"
#include "codec/groups.hpp"
#include "page/elements.hpp"

namespace nearkv::codec {
namespace {

// Elements from this magnitude on could overflow a range in binary32.
constexpr std::uint16_t kLimit = (127 + 126) << 7;
constexpr std::uint16_t kLeastNormal = 1 << 7;

// bf16 each, one after the other, for every group.
constexpr std::size_t kParameterBytes = 2 * sizeof(std::uint16_t);

template <unsigned kBits>
constexpr int kMaxCode = (1 << kBits) - 1;

template <unsigned kBits>
std::size_t row_bytes(const BlockShape& shape) {
  return shape.dim * kBits / 8;
}

template <unsigned kBits>
std::size_t encoded_size(const BlockShape& shape) {
  return group_count(shape) * kParameterBytes + kBlockTokens * row_bytes<kBits>(shape);
}

bool supports(const BlockShape& shape) { return shape.dtype == RowDtype::kBf16; }

// The least normal bf16 number whose max_code-fold spans the range.
std::uint16_t scale_for(const Range& range, int max_code) {
  const double span = static_cast<double>(from_bf16(range.high)) - from_bf16(range.low);
  if (span == 0) return 0;
  const double exact = span / max_code;
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(exact));
  if (std::bit_cast<float>(bits) < exact) ++bits;
  return std::max(static_cast<std::uint16_t>((bits + 0xFFFF) >> 16), kLeastNormal);
}

// Subnormals become +0.
float flushed(std::uint16_t bits) {
  return from_bf16((bits & kBf16Exponent) == 0 ? std::uint16_t{0} : bits);
}

// Finite values only: to_bf16()'s care for NaN would cost a third of the decoder's speed.
std::uint16_t to_flushed_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  return (rounded & kBf16Exponent) == 0 ? std::uint16_t{0} : rounded;
}

// Channel c is the low half of byte c, channel c + dim / 2 its high half.
void pack_nibbles(std::span<const std::uint8_t> codes, std::byte* nibbles) {
  const std::size_t half = codes.size() / 2;
  for (std::size_t c = 0; c < half; ++c) {
    nibbles[c] = static_cast<std::byte>(codes[c] | (codes[c + half] << 4));
  }
}

void unpack_nibbles(const std::byte* nibbles, std::span<std::uint8_t> codes) {
  const std::size_t half = codes.size() / 2;
  for (std::size_t c = 0; c < half; ++c) {
    const auto both = std::to_integer<std::uint8_t>(nibbles[c]);
    codes[c] = both & 0xF;
    codes[c + half] = both >> 4;
  }
}

template <unsigned kBits>
Status encode(const BlockShape& shape, std::span<const std::uint16_t> words,
              std::span<std::byte> out, std::size_t* encoded_bytes, Workspace&) {
  if (greatest_magnitude(words) >= kLimit) return Status::kBadArgument;

  std::array<Range, kMaxBlockDim> ranges;
  const std::size_t groups = group_count(shape);
  group_ranges(shape, words, std::span(ranges).first(groups));
  GroupParameter<float> zeros(shape);
  GroupParameter<float> inverse_scales(shape);
  std::byte* parameters = out.data();
  for (std::size_t g = 0; g < groups; ++g, parameters += kParameterBytes) {
    const std::uint16_t scale = scale_for(ranges[g], kMaxCode<kBits>);
    store(parameters, ranges[g].low);
    store(parameters + sizeof(std::uint16_t), scale);
    zeros[g] = from_bf16(ranges[g].low);
    inverse_scales[g] = scale != 0 ? 1.0F / from_bf16(scale) : 0.0F;
  }

  std::byte* row_out = parameters;
  std::array<std::uint8_t, kMaxBlockDim> code_storage;
  const std::span<std::uint8_t> codes = std::span(code_storage).first(shape.dim);
  for (std::size_t token = 0; token < kBlockTokens; ++token, row_out += row_bytes<kBits>(shape)) {
    const auto row = words.subspan(token * shape.dim, shape.dim);
    const auto zero = zeros.row(token);
    const auto inverse_scale = inverse_scales.row(token);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const float raised = (flushed(row[c]) - zero[c]) * inverse_scale[c] + 0.5F;
      codes[c] =
          static_cast<std::uint8_t>(std::min(static_cast<std::int32_t>(raised), kMaxCode<kBits>));
    }
    if constexpr (kBits == 8) {
      std::ranges::copy(std::as_bytes(codes), row_out);
    } else {
      pack_nibbles(codes, row_out);
    }
  }
  *encoded_bytes = encoded_size<kBits>(shape);
  return Status::kOk;
}

template <unsigned kBits>
Status decode(const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::uint16_t> words, Workspace&) {
  if (encoded.size() != encoded_size<kBits>(shape)) return Status::kCodecError;
  GroupParameter<float> zeros(shape);
  GroupParameter<float> scales(shape);
  const std::byte* parameters = encoded.data();
  for (std::size_t g = 0; g < group_count(shape); ++g, parameters += kParameterBytes) {
    const auto zero = load<std::uint16_t>(parameters);
    const auto scale = load<std::uint16_t>(parameters + sizeof(std::uint16_t));
    if ((zero & kBf16Magnitude) >= kLimit || scale > kLimit) return Status::kCodecError;
    zeros[g] = flushed(zero);
    scales[g] = flushed(scale);
  }

  const std::byte* row_in = parameters;
  std::array<std::uint8_t, kMaxBlockDim> code_storage;
  const std::span<std::uint8_t> codes = std::span(code_storage).first(shape.dim);
  for (std::size_t token = 0; token < kBlockTokens; ++token, row_in += row_bytes<kBits>(shape)) {
    if constexpr (kBits == 8) {
      std::ranges::copy(std::span(row_in, codes.size()), std::as_writable_bytes(codes).begin());
    } else {
      unpack_nibbles(row_in, codes);
    }
    const auto row = words.subspan(token * shape.dim, shape.dim);
    const auto zero = zeros.row(token);
    const auto scale = scales.row(token);
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = to_flushed_bf16(zero[c] + static_cast<float>(codes[c]) * scale[c]);
    }
  }
  return Status::kOk;
}

}  // namespace

const BlockCodec int8_codec{supports, encoded_size<8>, encode<8>, decode<8>};
const BlockCodec int4_codec{supports, encoded_size<4>, encode<4>, decode<4>};

}  // namespace nearkv::codec

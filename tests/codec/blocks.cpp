#include "blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace nearkv::test {
namespace {

std::uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Draws one element of a channel.
class Source {
 public:
  Source(Distribution distribution, std::size_t dim, std::uint32_t seed)
      : distribution_(distribution), random_(seed), scales_(dim), constants_(dim) {
    for (double& scale : scales_) scale = std::exp(normal_(random_));
    for (std::uint16_t& constant : constants_) constant = to_bf16(normal_(random_));
  }

  std::uint16_t draw(std::size_t channel) {
    const double scale = scales_[channel];
    const auto bits = static_cast<std::uint16_t>(random_());
    switch (distribution_) {
      case Distribution::kGaussian:
        return to_bf16(scale * normal_(random_));
      case Distribution::kHeavyTail:
        return to_bf16(scale * student_(random_));
      case Distribution::kBiased:
        return to_bf16(scale * (normal_(random_) + (channel % 2 == 0 ? 8 : -8)));
      case Distribution::kConstantChannels:
        return constants_[channel];
      case Distribution::kAllZero:
        return 0;
      case Distribution::kSparse:
        return one_in(10) ? to_bf16(scale * normal_(random_)) : one_in(20) ? 0x8000 : 0;
      case Distribution::kTiny:
        return static_cast<std::uint16_t>(bits & 0x83FF);
      case Distribution::kHuge:
        return static_cast<std::uint16_t>((bits & 0x8000) | (0x7F7F - (bits & 0x1FF)));
      case Distribution::kNonFinite:
        return one_in(50) ? static_cast<std::uint16_t>(bits | 0x7F80)
                          : to_bf16(scale * normal_(random_));
      case Distribution::kRandomBits:
        return bits;
      case Distribution::kWideExponents:
        return (bits & 0x7F80) == 0x7F80 ? std::uint16_t{0x3F80} : bits;
    }
    return 0;
  }

 private:
  bool one_in(std::uint32_t count) { return random_() % count == 0; }

  Distribution distribution_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> student_{3};
  std::vector<double> scales_;
  Words constants_;
};

}  // namespace

std::string_view name(Distribution distribution) {
  switch (distribution) {
    case Distribution::kGaussian:
      return "gaussian";
    case Distribution::kHeavyTail:
      return "heavy_tail";
    case Distribution::kBiased:
      return "biased";
    case Distribution::kConstantChannels:
      return "constant_channels";
    case Distribution::kAllZero:
      return "all_zero";
    case Distribution::kSparse:
      return "sparse";
    case Distribution::kTiny:
      return "tiny";
    case Distribution::kHuge:
      return "huge";
    case Distribution::kNonFinite:
      return "non_finite";
    case Distribution::kRandomBits:
      return "random_bits";
    case Distribution::kWideExponents:
      return "wide_exponents";
  }
  return "?";
}

Words make_block(Distribution distribution, std::size_t dim, std::uint32_t seed) {
  Source source(distribution, dim, seed);
  Words words(kBlockTokens * dim);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = source.draw(i % dim);
  return words;
}

bool is_moderate(std::span<const std::uint16_t> words) {
  return std::ranges::all_of(words, [](std::uint16_t bits) {
    return std::abs(std::bit_cast<float>(std::uint32_t{bits} << 16)) < 0x1p126F;
  });
}

std::vector<std::byte> to_rows(const BlockShape& shape, std::span<const std::uint16_t> words) {
  std::vector<std::byte> rows(block_bytes(shape));
  if (rows.size() == words.size_bytes()) {
    std::memcpy(rows.data(), words.data(), rows.size());
  } else {
    std::ranges::transform(words, rows.begin(),
                           [](std::uint16_t word) { return static_cast<std::byte>(word >> 8); });
  }
  return rows;
}

Words to_words(std::span<const std::byte> rows) {
  Words words(rows.size() / sizeof(std::uint16_t));
  std::memcpy(words.data(), rows.data(), rows.size());
  return words;
}

std::vector<std::byte> encode_block(Codec codec, const BlockShape& shape,
                                    std::span<const std::byte> rows) {
  CodecWorkspace workspace;
  std::vector<std::byte> encoded(encoded_bound(codec, shape));
  std::size_t encoded_bytes = 0;
  if (encode(codec, shape, rows, encoded, &encoded_bytes, workspace) != Status::kOk ||
      encoded_bytes > encoded.size()) {
    throw std::runtime_error("encode failed: " + describe(codec, shape));
  }
  encoded.resize(encoded_bytes);
  return encoded;
}

std::string_view name(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kPlanesLz4:
      return "planes_lz4";
    case Codec::kPlanesZstd:
      return "planes_zstd";
    case Codec::kInt8:
      return "int8";
    case Codec::kInt4:
      return "int4";
    case Codec::kFp8:
      return "fp8";
  }
  return "?";
}

std::string_view name(Tensor tensor) { return tensor == Tensor::kKeys ? "keys" : "values"; }

std::string_view name(RowDtype dtype) {
  switch (dtype) {
    case RowDtype::kBf16:
      return "bf16";
    case RowDtype::kFp16:
      return "fp16";
    case RowDtype::kFp8E4m3:
      return "e4m3";
    case RowDtype::kFp8E5m2:
      return "e5m2";
    case RowDtype::kInt8:
      return "int8";
  }
  return "?";
}

std::string describe(Codec codec, const BlockShape& shape) {
  std::string text(name(codec));
  text.append("_").append(name(shape.tensor)).append("_").append(name(shape.dtype));
  return text.append("_").append(std::to_string(shape.dim));
}

}  // namespace nearkv::test

// Blocks of elements to encode: the distributions that KV caches have, and the ones that break
// things.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/codec.hpp"

namespace nearkv::test {

inline constexpr std::array<std::uint16_t, 7> kDims{16, 64, 80, 96, 128, 256, 576};

/// A block's elements as 16-bit patterns, token-major.
using Words = std::vector<std::uint16_t>;

enum class Distribution {
  kGaussian,          ///< Log-normal scale per channel.
  kHeavyTail,         ///< Student t with three degrees of freedom.
  kBiased,            ///< Every channel's mean is 8 of its standard deviations.
  kConstantChannels,  ///< One number per channel.
  kAllZero,
  kSparse,         ///< Mostly +0, some -0.
  kTiny,           ///< Around the smallest normal numbers, subnormals among them.
  kHuge,           ///< Up to the greatest finite number, of both signs.
  kNonFinite,      ///< Gaussian with NaN and infinities strewn in.
  kRandomBits,     ///< Every pattern equally likely.
  kWideExponents,  ///< Random exponents: channels span the whole range.
};

inline constexpr std::array kDistributions{
    Distribution::kGaussian,     Distribution::kHeavyTail,
    Distribution::kBiased,       Distribution::kConstantChannels,
    Distribution::kAllZero,      Distribution::kSparse,
    Distribution::kTiny,         Distribution::kHuge,
    Distribution::kNonFinite,    Distribution::kRandomBits,
    Distribution::kWideExponents};

[[nodiscard]] std::string_view name(Distribution distribution);

/// bf16 elements, the same for the same arguments.
[[nodiscard]] Words make_block(Distribution distribution, std::size_t dim, std::uint32_t seed);

/// Whether a lossy codec takes the block: all elements finite and below 2^126.
[[nodiscard]] bool is_moderate(std::span<const std::uint16_t> words);

/// The elements as the bytes of rows of this dtype; 8-bit ones are the words' upper halves.
[[nodiscard]] std::vector<std::byte> to_rows(const BlockShape& shape,
                                             std::span<const std::uint16_t> words);

/// 16-bit elements from rows.
[[nodiscard]] Words to_words(std::span<const std::byte> rows);

/// Encodes and cuts to size. Throws if the codec fails.
[[nodiscard]] std::vector<std::byte> encode_block(Codec codec, const BlockShape& shape,
                                                  std::span<const std::byte> rows);

[[nodiscard]] std::string_view name(Codec codec);
[[nodiscard]] std::string_view name(Tensor tensor);
[[nodiscard]] std::string_view name(RowDtype dtype);
[[nodiscard]] std::string describe(Codec codec, const BlockShape& shape);

}  // namespace nearkv::test

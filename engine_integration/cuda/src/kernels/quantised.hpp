// Blocks of the codecs INT8, INT4 and FP8 (host_lib/src/codec/FORMATS.md) as bf16 rows.
#pragma once

#include "nearkv_cuda.h"
#include "pages.hpp"

namespace nearkv::cuda {

/// A block of threads takes an encoded block, and a thread eight channels of a token at a time. The
/// groups are a channel of K, or a token of V.
class Quantised {
 public:
  explicit Quantised(const nearkv_cuda_quantised_args& args) : args_(args) {}

  [[nodiscard]] Grid grid() const { return {args_.blocks, 0}; }

  /// Bytes of an encoded block.
  [[nodiscard]] static std::uint64_t encoded_bytes(std::uint32_t codec, std::uint32_t tensor,
                                                   std::uint32_t dim) {
    const std::uint64_t groups = tensor == NKV_TENSOR_KEYS ? dim : NKV_PAGE_TOKENS;
    const std::uint64_t elements = std::uint64_t{NKV_PAGE_TOKENS} * dim;
    if (codec == NKV_CODEC_FP8) return groups + elements;
    return groups * 4 + (codec == NKV_CODEC_INT4 ? elements / 2 : elements);
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const std::byte* const encoded =
        static_cast<const std::byte*>(args_.encoded) + block.index() * args_.block_bytes;
    const std::uint32_t chunks = args_.dim / kChunk;
    bool is_sound = true;
    for (unsigned i = block.thread(); i < NKV_PAGE_TOKENS * chunks; i += kThreads) {
      const std::uint32_t token = i / chunks;
      const std::uint32_t channel = i % chunks * kChunk;
      std::uint32_t patterns[kChunk];
      if (args_.codec == NKV_CODEC_FP8) {
        is_sound &= decode_fp8(encoded, token, channel, patterns);
      } else {
        is_sound &= decode_affine(encoded, token, channel, patterns);
      }
      const std::uint64_t row = std::uint64_t{block.index()} * NKV_PAGE_TOKENS + token;
      store_chunk(patterns, static_cast<std::byte*>(args_.out) + (row * args_.dim + channel) * 2);
    }
    if (!is_sound) report(block, args_.fault, block.index(), NKV_STATUS_CODEC_ERROR);
  }

 private:
  [[nodiscard]] NKV_KERNEL bool is_key() const { return args_.tensor == NKV_TENSOR_KEYS; }
  [[nodiscard]] NKV_KERNEL std::uint32_t groups() const {
    return is_key() ? args_.dim : NKV_PAGE_TOKENS;
  }

  /// Subnormals are +0.
  [[nodiscard]] NKV_KERNEL static std::uint32_t flushed(std::uint32_t bits) {
    return (bits & 0x7F80U) == 0 ? 0 : bits;
  }

  /// element = zero + code * scale, each rounded on its own.
  NKV_KERNEL bool decode_affine(const std::byte* encoded, std::uint32_t token,
                                std::uint32_t channel, std::uint32_t* patterns) const {
    constexpr std::uint32_t kLimit = (127 + 126) << 7;
    std::uint32_t codes[kChunk];
    load_codes(encoded + std::size_t{groups()} * 4, token, channel, codes);
    const auto* const parameters = reinterpret_cast<const std::uint32_t*>(encoded);
    bool is_sound = true;
    for (unsigned i = 0; i < kChunk; ++i) {
      const std::uint32_t parameter = parameters[is_key() ? channel + i : token];
      const std::uint32_t zero = parameter & 0xFFFFU;
      const std::uint32_t scale = parameter >> 16;
      is_sound &= (zero & 0x7FFFU) < kLimit && scale <= kLimit;
      const float step = product(static_cast<float>(codes[i]), from_bf16(flushed(scale)));
      patterns[i] = flushed(rounded(sum(from_bf16(flushed(zero)), step)));
    }
    return is_sound;
  }

  /// To nearest even, of what is no NaN.
  [[nodiscard]] NKV_KERNEL static std::uint32_t rounded(float value) {
    const auto bits = bits_as<std::uint32_t>(value);
    return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  }

  // A compiler would make one operation of these two.
#if defined(__CUDA_ARCH__)
  [[nodiscard]] NKV_KERNEL static float product(float a, float b) { return __fmul_rn(a, b); }
  [[nodiscard]] NKV_KERNEL static float sum(float a, float b) { return __fadd_rn(a, b); }
#else
  [[nodiscard]] NKV_KERNEL static float product(float a, float b) { return a * b; }
  [[nodiscard]] NKV_KERNEL static float sum(float a, float b) { return a + b; }
#endif

  NKV_KERNEL void load_codes(const std::byte* rows, std::uint32_t token, std::uint32_t channel,
                             std::uint32_t* codes) const {
    const std::uint32_t half = args_.dim / 2;
    // Channel c of INT4 is the low half of byte c, or the high half of byte c - dim / 2.
    const bool is_nibble = args_.codec == NKV_CODEC_INT4;
    const std::uint32_t at =
        is_nibble ? token * half + channel % half : token * args_.dim + channel;
    const auto bytes = *reinterpret_cast<const std::uint64_t*>(rows + at);
    for (unsigned i = 0; i < kChunk; ++i) {
      const auto byte = static_cast<std::uint32_t>(bytes >> (8 * i)) & 0xFFU;
      codes[i] = !is_nibble ? byte : (channel < half ? byte & 0xFU : byte >> 4);
    }
  }

  /// element = code * 2^x.
  NKV_KERNEL bool decode_fp8(const std::byte* encoded, std::uint32_t token, std::uint32_t channel,
                             std::uint32_t* patterns) const {
    const std::uint32_t at = groups() + token * args_.dim + channel;
    const auto codes = *reinterpret_cast<const std::uint64_t*>(encoded + at);
    bool is_sound = true;
    for (unsigned i = 0; i < kChunk; ++i) {
      const auto code = static_cast<std::uint32_t>(codes >> (8 * i)) & 0xFFU;
      const auto scale = static_cast<std::int32_t>(encoded[is_key() ? channel + i : token]);
      is_sound &= (code & 0x7FU) != 0x7FU;
      patterns[i] = from_e4m3(code, scale);
    }
    return is_sound;
  }

  [[nodiscard]] NKV_KERNEL static std::uint32_t from_e4m3(std::uint32_t code, std::int32_t scale) {
    constexpr std::int32_t kScaleBias = 135;
    constexpr std::int32_t kGreatestFinite = 0x7F7F;
    const std::uint32_t sign = (code & 0x80U) << 8;
    const std::uint32_t field = (code & 0x7FU) >> 3;
    std::uint32_t significand = (code & 7U) | (field != 0 ? 8U : 0U);
    if (significand == 0) return sign;
    std::int32_t exponent = 127 - 7 + static_cast<std::int32_t>(field > 1 ? field : 1);
    for (; significand < 8; significand <<= 1) --exponent;
    const std::int32_t scaled =
        (exponent + scale - kScaleBias) * 128 + static_cast<std::int32_t>((significand & 7U) << 4);
    if (scaled < 128) return sign;
    return sign | static_cast<std::uint32_t>(scaled < kGreatestFinite ? scaled : kGreatestFinite);
  }

  nearkv_cuda_quantised_args args_;
};

}  // namespace nearkv::cuda

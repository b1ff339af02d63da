// AVX-512's intrinsics on any processor, by SIMDe: for tests of kernels that it lacks.
//
// Stands before the compiler's own <immintrin.h> in the search path. What Debian's SIMDe does not
// have yet follows Intel's intrinsics guide, one lane at a time.
#pragma once

#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace nearkv::emulated {

template <typename Element, typename Vector>
using Lanes = std::array<Element, sizeof(Vector) / sizeof(Element)>;

template <typename Element, typename Vector>
Lanes<Element, Vector> lanes(Vector vector) {
  return std::bit_cast<Lanes<Element, Vector>>(vector);
}

template <typename Vector, typename Element>
Vector load(std::uint64_t mask, const void* from) {
  Lanes<Element, Vector> to{};
  for (std::size_t i = 0; i < to.size(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    std::memcpy(&to[i], static_cast<const char*>(from) + i * sizeof(Element), sizeof(Element));
  }
  return std::bit_cast<Vector>(to);
}

template <typename To, typename From>
__m512i widen(__m256i vector) {
  const auto from = lanes<From>(vector);
  return std::bit_cast<__m512i>([&] {
    Lanes<To, __m512i> to{};
    std::ranges::copy(from, to.begin());
    return to;
  }());
}

/// To nearest, ties to even; subnormals become zeros.
inline std::uint16_t to_bf16(std::uint32_t bits) {
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  if ((bits & 0x7F800000U) == 0) return static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

inline __m256i to_bf16(__m512 vector) {
  Lanes<std::uint16_t, __m256i> to{};
  std::ranges::transform(lanes<std::uint32_t>(vector), to.begin(),
                         [](std::uint32_t bits) { return to_bf16(bits); });
  return std::bit_cast<__m256i>(to);
}

inline __m512 shuffle_quarters(__m512 a, __m512 b, int control) {
  const auto first = lanes<float>(a);
  const auto second = lanes<float>(b);
  Lanes<float, __m512> to{};
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t quarter = static_cast<std::size_t>(control) >> (2 * (i / 4)) & 3U;
    to[i] = (i < 8 ? first : second)[4 * quarter + i % 4];
  }
  return std::bit_cast<__m512>(to);
}

}  // namespace nearkv::emulated

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names.
using __mmask16 = std::uint16_t;
using __mmask32 = std::uint32_t;
using __mmask64 = std::uint64_t;

inline __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, const void* from) {
  return nearkv::emulated::load<__m256i, std::uint8_t>(mask, from);
}
inline __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void* from) {
  return nearkv::emulated::load<__m512i, std::uint8_t>(mask, from);
}
inline __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void* from) {
  return nearkv::emulated::load<__m512i, std::uint16_t>(mask, from);
}
inline __m512i _mm512_cvtepu8_epi16(__m256i vector) {
  return nearkv::emulated::widen<std::uint16_t, std::uint8_t>(vector);
}
inline __m512i _mm512_cvtepu16_epi32(__m256i vector) {
  return nearkv::emulated::widen<std::uint32_t, std::uint16_t>(vector);
}
inline __m256i _mm512_cvtneps_pbh(__m512 vector) { return nearkv::emulated::to_bf16(vector); }
inline __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int control) {
  return nearkv::emulated::shuffle_quarters(a, b, control);
}
inline float _mm512_reduce_max_ps(__m512 vector) {
  return std::ranges::max(nearkv::emulated::lanes<float>(vector));
}
inline float _mm512_reduce_add_ps(__m512 vector) {
  float sum = 0;
  for (const float lane : nearkv::emulated::lanes<float>(vector)) sum += lane;
  return sum;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

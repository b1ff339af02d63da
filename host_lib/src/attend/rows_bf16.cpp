// Compiled for AVX-512 whatever the rest of the library is compiled for, and entered only where the
// processor has it. Includes nothing whose inline functions other files might share.
#include "attend/rows_bf16.hpp"

#if defined(__AVX512BF16__)

#include <immintrin.h>

namespace nearkv {
namespace {

constexpr std::size_t kChunk = 64;  // Channels that are decoded together.
constexpr std::size_t kHalf = kChunk / 2;

/// Channels [0, 32) and [32, 64) of a chunk.
struct Chunk {
  __m512i first;
  __m512i second;
};

/// `channels`: those that there are.
inline Chunk decode(const std::uint8_t* sign_mantissa, const std::uint8_t* nibbles,
                    const std::uint8_t* exponents, __mmask64 channels) {
  const auto bytes = static_cast<__mmask32>(channels == ~__mmask64{0} ? ~0U : 0xFFFFU);
  const __m512i pairs = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(bytes, nibbles));
  const __m512i nibble = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)),
                                          _mm512_set1_epi16(0x0F0F));
  const __mmask64 present = _mm512_mask_test_epi8_mask(channels, nibble, nibble);
  const __m512i sm = _mm512_maskz_loadu_epi8(present, sign_mantissa);
  const __m512i exponent =
      _mm512_maskz_add_epi8(present, nibble, _mm512_maskz_loadu_epi8(channels, exponents));
  // Bits of the first operand choose between the other two.
  constexpr int kSelect = 0xCA;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i high = _mm512_ternarylogic_epi32(sign, sm, _mm512_srli_epi16(exponent, 1), kSelect);
  const __m512i low = _mm512_ternarylogic_epi32(sign, _mm512_slli_epi16(exponent, 7), sm, kSelect);
  const __m512i lower = _mm512_unpacklo_epi8(low, high);  // Channels 0-7 of every 16,
  const __m512i upper = _mm512_unpackhi_epi8(low, high);  // and 8-15.
  return {
      _mm512_permutex2var_epi64(lower, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), upper),
      _mm512_permutex2var_epi64(lower, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), upper),
  };
}

}  // namespace

void decode_delta4_bf16(const RowSource& source, const std::byte* next, std::uint16_t* out) {
  const std::size_t dim = source.dim;
  for (std::size_t token = 0; token < NKV_PAGE_TOKENS; ++token, out += dim) {
    const std::uint8_t* const row = source.rows + token * source.row_bytes;
    if (next != nullptr) {
      const std::byte* const ahead = next + token * source.row_bytes;
      for (std::size_t offset = 0; offset < source.row_bytes; offset += NKV_BURST_BYTES) {
        _mm_prefetch(ahead + offset, _MM_HINT_T1);
      }
    }
    std::size_t c = 0;
    for (; c + kChunk <= dim; c += kChunk) {
      const Chunk chunk = decode(row + c, row + dim + c / 2, source.exponents + c, ~__mmask64{0});
      _mm512_store_si512(out + c, chunk.first);
      _mm512_store_si512(out + c + kHalf, chunk.second);
    }
    if (c == dim) continue;
    const Chunk chunk = decode(row + c, row + dim + c / 2, source.exponents + c, 0xFFFFFFFFU);
    _mm512_store_si512(out + c, chunk.first);
  }
}

}  // namespace nearkv

#else

namespace nearkv {

void decode_delta4_bf16(const RowSource& /*source*/, const std::byte* /*next*/,
                        std::uint16_t* /*out*/) {}

}  // namespace nearkv

#endif

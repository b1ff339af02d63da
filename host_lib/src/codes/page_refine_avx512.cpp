// Scores of a page's tokens of which more than one plane is read (ARITHMETIC.md, section 12.3).
// Compiled for AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// What the first planes of four tokens say, as numbers without sign. A vector has eight channels,
/// those of a token in one quarter.
template <std::size_t kPlanes>
void unpack_quad(const PlaneRows& keys, std::size_t token, std::int16_t* numbers) {
  const std::size_t row_bytes = keys.dim / 8;
  const __m512i eight = _mm512_set1_epi64(0x0706050403020100);
  const __m512i first_places =
      _mm512_add_epi8(eight, _mm512_maskz_set1_epi64(0xAA, 0x0808080808080808));
  const __m512i zero = _mm512_setzero_si512();
  for (std::size_t byte = 0; byte < row_bytes; byte += 16) {
    __m512i quads[kPlanes];
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      // What a plane says lies by so much the higher in its bytes.
      quads[plane] =
          _mm512_rolv_epi64(load_quad(keys.planes[plane], row_bytes, token, byte),
                            _mm512_set1_epi64(static_cast<long long>(kPlanes - 1 - plane)));
    }
    for (std::size_t half = 0; half < 16 && byte + half < row_bytes; half += 8) {
      __m512i bits[kPlanes];
      for (std::size_t plane = 0; plane < kPlanes; ++plane) {
        bits[plane] = half == 0 ? _mm512_unpacklo_epi64(quads[plane], quads[plane])
                                : _mm512_unpackhi_epi64(quads[plane], quads[plane]);
      }
      __m512i places = first_places;
      for (std::size_t at = byte + half; at < byte + half + 8 && at < row_bytes; at += 2) {
        const __m512i merged = merge_planes<kPlanes, 0>(bits, places);
        _mm512_store_si512(numbers + 32 * at, _mm512_unpacklo_epi8(merged, zero));
        _mm512_store_si512(numbers + 32 * (at + 1), _mm512_unpackhi_epi8(merged, zero));
        places = _mm512_add_epi8(places, _mm512_set1_epi8(16));
      }
    }
  }
}

/// Sums of four numbers each, of four vectors: a quarter of the result has those of that quarter.
__m512i sums_of_quarters(const __m512i* sums) {
  const __m512i first = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                         _mm512_unpackhi_epi32(sums[0], sums[1]));
  const __m512i second = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                          _mm512_unpackhi_epi32(sums[2], sums[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(first, second),
                          _mm512_unpackhi_epi64(first, second));
}

/// x of four tokens in up to four rows, [row][token], by the sums' weights.
template <std::size_t kRows>
__m512i sum_quad(const std::int16_t* numbers, std::size_t dim, int most,
                 const std::int16_t* weights, std::size_t padded, const std::int32_t* totals) {
  __m512i sums[kQuad];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (std::size_t c = 0; c < dim; c += 8) {
    const __m512i eight = _mm512_load_si512(numbers + 4 * c);
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512i own = _mm512_broadcast_i32x4(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + row * padded + c)));
      sums[row] = _mm512_dpwssd_epi32(sums[row], eight, own);
    }
  }
  const __m512i all = _mm512_broadcast_i32x4(
      _mm_maskz_loadu_epi32(static_cast<__mmask8>((1U << kRows) - 1), totals));
  const __m512i twice = _mm512_slli_epi32(sums_of_quarters(sums), 1);
  const __m512i by_token =
      _mm512_sub_epi32(twice, _mm512_mullo_epi32(all, _mm512_set1_epi32(most)));
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_permutexvar_epi32(order, by_token);
}

template <std::size_t kRows>
void sum_rows(const std::int16_t* numbers, std::size_t dim, int most, const WeightRows& weights,
              std::size_t row, __mmask8 some, std::int32_t* sums) {
  const __m512i quad = sum_quad<kRows>(numbers, dim, most, weights.weights + row * weights.padded,
                                       weights.padded, weights.totals + row);
  std::int32_t* const to = sums + row * kTokens;
  _mm_mask_storeu_epi32(to, some, _mm512_castsi512_si128(quad));
  if (kRows > 1) _mm_mask_storeu_epi32(to + kTokens, some, _mm512_extracti32x4_epi32(quad, 1));
  if (kRows > 2) _mm_mask_storeu_epi32(to + 2 * kTokens, some, _mm512_extracti32x4_epi32(quad, 2));
  if (kRows > 3) _mm_mask_storeu_epi32(to + 3 * kTokens, some, _mm512_extracti32x4_epi32(quad, 3));
}

/// x of the tokens that have so many planes.
template <std::size_t kPlanes>
void sum_tokens(const PlaneRows& keys, const WeightRows& weights, std::int32_t* sums) {
  constexpr int kMost = (1 << kPlanes) - 1;
  alignas(64) std::int16_t numbers[kQuad * NKV_MAX_HEAD_DIM];
  for (std::uint64_t left = keys.tokens[kPlanes]; left != 0;) {
    const auto token = static_cast<std::size_t>(__builtin_ctzll(left)) / kQuad * kQuad;
    const auto some = static_cast<__mmask8>(left >> token & 15);
    left &= ~(std::uint64_t{15} << token);
    unpack_quad<kPlanes>(keys, token, numbers);
    std::int32_t* const to = sums + token;
    std::size_t row = 0;
    for (; row + kQuad <= weights.rows; row += kQuad) {
      sum_rows<4>(numbers, keys.dim, kMost, weights, row, some, to);
    }
    switch (weights.rows - row) {
      case 3:
        sum_rows<3>(numbers, keys.dim, kMost, weights, row, some, to);
        break;
      case 2:
        sum_rows<2>(numbers, keys.dim, kMost, weights, row, some, to);
        break;
      case 1:
        sum_rows<1>(numbers, keys.dim, kMost, weights, row, some, to);
        break;
      default:
        break;
    }
  }
}

void refined_sums(const PlaneRows& keys, const WeightRows& weights, std::int32_t* sums) {
  sum_tokens<2>(keys, weights, sums);
  sum_tokens<3>(keys, weights, sums);
  sum_tokens<4>(keys, weights, sums);
}

/// round(sums * multipliers / 2^12) of 16 tokens.
__m256i residuals(const std::int32_t* sums, __m256i multipliers) {
  const __m512i product =
      _mm512_mullo_epi32(_mm512_load_si512(sums), _mm512_cvtepi16_epi32(multipliers));
  return _mm512_cvtepi32_epi16(
      _mm512_srai_epi32(_mm512_add_epi32(product, _mm512_set1_epi32(1 << 11)), 12));
}

void rescore(const std::int32_t* sums, const std::uint8_t* factors, const std::uint64_t* tokens,
             const RefinedRow* refined, std::size_t rows, std::int16_t* above) {
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own = load_factors(factors, half);
    const __mmask32 some = _mm512_test_epi16_mask(own, _mm512_set1_epi16(15));
    const __mmask32 all = half_of(tokens[2] | tokens[3] | tokens[4], half);
    if (all == 0) continue;
    for (std::size_t row = 0; row < rows; ++row) {
      __m512i multipliers = _mm512_setzero_si512();
      for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
        multipliers =
            _mm512_mask_permutexvar_epi16(multipliers, some & half_of(tokens[planes], half), own,
                                          load_table(refined[row].multipliers[planes]));
      }
      const std::size_t at = row * kTokens + kHalf * half;
      const __m512i residual = _mm512_inserti64x4(
          _mm512_castsi256_si512(residuals(sums + at, _mm512_castsi512_si256(multipliers))),
          residuals(sums + at + kHalf / 2, _mm512_extracti64x4_epi64(multipliers, 1)), 1);
      _mm512_mask_storeu_epi16(
          above + at, all, _mm512_add_epi16(residual, _mm512_set1_epi16(refined[row].fraction)));
    }
  }
}

}  // namespace

void avx512::set_refine_kernels(PageKernels* kernels) {
  kernels->refined_sums = refined_sums;
  kernels->rescore = rescore;
}

}  // namespace nearkv

#endif

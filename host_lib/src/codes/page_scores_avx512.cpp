// Scores of a page's tokens (ARITHMETIC.md, section 12): sums over planes, and what factors make of
// them. Compiled for AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// Sixteen numbers, twice: what an index of five bits finds whatever its uppermost one is.
__m512i load_twice(const std::int16_t* table) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(table)));
}

/// Factors of 32 tokens as 16-bit numbers.
__m512i load_factors(const std::uint8_t* factors) {
  return _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(factors)));
}

void unpack_factors(const std::uint8_t* packed, std::uint8_t* factors) {
  const __m512i pairs =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed)));
  const __m512i both = _mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4));
  _mm512_store_si512(factors, _mm512_and_si512(both, _mm512_set1_epi8(15)));
}

void count_factors(const std::uint8_t* factors, std::uint64_t tokens, std::int32_t* counts) {
  const __m512i all = _mm512_load_si512(factors);
  for (int factor = 0; factor < 16; ++factor) {
    counts[factor] = static_cast<std::int32_t>(__builtin_popcountll(
        _mm512_mask_cmpeq_epi8_mask(tokens, all, _mm512_set1_epi8(static_cast<char>(factor)))));
  }
}

/// Sum of a number and its partner, in lanes of `upper` the partner's less its own.
__m512i butterfly(__m512i numbers, __m512i partners, __mmask16 upper) {
  return _mm512_mask_sub_epi32(_mm512_add_epi32(numbers, partners), upper, partners, numbers);
}

void hadamard(std::int32_t* values, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 16) {
    __m512i v = load(values + i);
    v = butterfly(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB), 0xAAAA);
    v = butterfly(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC), 0xCCCC);
    v = butterfly(v, _mm512_permutex_epi64(v, 0x4E), 0xF0F0);
    v = butterfly(v, _mm512_shuffle_i64x2(v, v, 0x4E), 0xFF00);
    _mm512_storeu_si512(values + i, v);
  }
  for (std::size_t half = 16; half < size; half *= 2) {
    for (std::size_t group = 0; group < size; group += 2 * half) {
      for (std::size_t i = group; i < group + half; i += 16) {
        const __m512i a = load(values + i);
        const __m512i b = load(values + i + half);
        _mm512_storeu_si512(values + i, _mm512_add_epi32(a, b));
        _mm512_storeu_si512(values + i + half, _mm512_sub_epi32(a, b));
      }
    }
  }
}

/// Eight tokens' eight bytes each, by byte: [8 bytes][8 tokens].
__m512i bytes_first(__m512i tokens) {
  const __m512i order = _mm512_set_epi8(
      63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5,
      60, 52, 44, 36, 28, 20, 12, 4, 59, 51, 43, 35, 27, 19, 11, 3, 58, 50, 42, 34, 26, 18, 10, 2,
      57, 49, 41, 33, 25, 17, 9, 1, 56, 48, 40, 32, 24, 16, 8, 0);
  return _mm512_permutexvar_epi8(order, tokens);
}

/// Transposes eight by eight words: out[b] has word b of all vectors.
void transpose_words(const __m512i* in, std::uint8_t (*out)[kTokens], std::size_t first) {
  __m512i even[4];
  __m512i odd[4];
  for (std::size_t i = 0; i < 4; ++i) {
    even[i] = _mm512_unpacklo_epi64(in[2 * i], in[2 * i + 1]);
    odd[i] = _mm512_unpackhi_epi64(in[2 * i], in[2 * i + 1]);
  }
  const auto put = [&](const __m512i* words, std::size_t offset) {
    const __m512i a = _mm512_shuffle_i64x2(words[0], words[1], 0x88);  // Lanes 0 and 2 of both,
    const __m512i b = _mm512_shuffle_i64x2(words[2], words[3], 0x88);
    const __m512i c = _mm512_shuffle_i64x2(words[0], words[1], 0xDD);  // 1 and 3.
    const __m512i d = _mm512_shuffle_i64x2(words[2], words[3], 0xDD);
    _mm512_store_si512(out[first + offset], _mm512_shuffle_i64x2(a, b, 0x88));
    _mm512_store_si512(out[first + offset + 4], _mm512_shuffle_i64x2(a, b, 0xDD));
    _mm512_store_si512(out[first + offset + 2], _mm512_shuffle_i64x2(c, d, 0x88));
    _mm512_store_si512(out[first + offset + 6], _mm512_shuffle_i64x2(c, d, 0xDD));
  };
  put(even, 0);
  put(odd, 1);
}

/// bytes[b][t] = byte b of token t's row of `row_bytes`.
void transpose_plane(const std::uint8_t* plane, std::size_t row_bytes,
                     std::uint8_t (*bytes)[kTokens]) {
  std::size_t done = 0;
  const __m512i rows = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                          _mm512_set1_epi64(static_cast<long long>(row_bytes)));
  for (; done + 8 <= row_bytes; done += 8) {
    __m512i in[8];
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint8_t* const from = plane + 8 * i * row_bytes + done;
      in[i] = bytes_first(row_bytes == 8 ? load(from) : _mm512_i64gather_epi64(rows, from, 1));
    }
    transpose_words(in, bytes, done);
  }
  for (; done < row_bytes; ++done) {
    for (std::size_t t = 0; t < kTokens; ++t) bytes[done][t] = plane[t * row_bytes + done];
  }
}

/// Even and odd tokens' numbers, in order.
void store_in_order(__m512i even, __m512i odd, std::int16_t* to) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  _mm512_store_si512(to, _mm512_permutex2var_epi16(even, low, odd));
  _mm512_store_si512(to + kHalf, _mm512_permutex2var_epi16(even, high, odd));
}

template <std::size_t kRows>
void sum_rows(const std::uint8_t (*bytes)[kTokens], std::size_t row_bytes,
              const std::int16_t* tables, std::int16_t* sums) {
  __m512i even[kRows];
  __m512i odd[kRows];
  for (std::size_t row = 0; row < kRows; ++row) even[row] = odd[row] = _mm512_setzero_si512();
  const std::size_t stride = row_bytes * 32;
  for (std::size_t b = 0; b < row_bytes; ++b) {
    // Indices have neighbours' bits above their four.
    const __m512i even_low = _mm512_load_si512(bytes[b]);
    const __m512i even_high = _mm512_srli_epi16(even_low, 4);
    const __m512i odd_low = _mm512_srli_epi16(even_low, 8);
    const __m512i odd_high = _mm512_srli_epi16(even_low, 12);
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512i low = load_twice(tables + row * stride + 32 * b);
      const __m512i high = load_twice(tables + row * stride + 32 * b + 16);
      even[row] = _mm512_add_epi16(even[row], _mm512_permutexvar_epi16(even_low, low));
      odd[row] = _mm512_add_epi16(odd[row], _mm512_permutexvar_epi16(odd_low, low));
      even[row] = _mm512_add_epi16(even[row], _mm512_permutexvar_epi16(even_high, high));
      odd[row] = _mm512_add_epi16(odd[row], _mm512_permutexvar_epi16(odd_high, high));
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    store_in_order(even[row], odd[row], sums + row * kTokens);
  }
}

void plane_sums(const std::uint8_t* plane, std::size_t dim, const std::int16_t* tables,
                std::size_t rows, std::int16_t* sums) {
  alignas(64) std::uint8_t bytes[NKV_MAX_HEAD_DIM / 8][kTokens];
  const std::size_t row_bytes = dim / 8;
  transpose_plane(plane, row_bytes, bytes);
  const std::size_t stride = row_bytes * 32;
  for (; rows >= 4; rows -= 4, tables += 4 * stride, sums += 4 * kTokens) {
    sum_rows<4>(bytes, row_bytes, tables, sums);
  }
  if (rows == 3) sum_rows<3>(bytes, row_bytes, tables, sums);
  if (rows == 2) sum_rows<2>(bytes, row_bytes, tables, sums);
  if (rows == 1) sum_rows<1>(bytes, row_bytes, tables, sums);
}

void mean_products(const std::int8_t* mean, const std::int16_t* halves, std::size_t dim,
                   std::size_t padded, std::size_t rows, std::int64_t* products) {
  const WideMean wide(mean, dim);
  for (std::size_t row = 0; row < rows; ++row, halves += 2 * padded) {
    __m512i upper = _mm512_setzero_si512();
    __m512i lower = _mm512_setzero_si512();
    for (std::size_t c = 0; c < dim; c += kHalf) {
      const __m512i numbers = wide.at(c);
      upper = _mm512_dpwssd_epi32(upper, numbers, load(halves + c));
      lower = _mm512_dpwssd_epi32(lower, numbers, load(halves + padded + c));
    }
    // Sums of pairs of lanes of both fit 32 bits.
    const __m512i mixed =
        _mm512_add_epi32(_mm512_unpacklo_epi32(upper, lower), _mm512_unpackhi_epi32(upper, lower));
    __m256i sum =
        _mm256_add_epi32(_mm512_castsi512_si256(mixed), _mm512_extracti64x4_epi64(mixed, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    products[row] = std::int64_t{_mm_extract_epi32(four, 0)} * 4096 + _mm_extract_epi32(four, 1);
  }
}

ScoreSums score(const std::int16_t* sums, const std::uint8_t* factors,
                const std::int16_t* multipliers, std::int16_t fraction, std::uint64_t visible,
                std::int16_t* above) {
  const __m512i table = _mm512_maskz_mov_epi16(0xFFFEFFFE, load_twice(multipliers));
  const __m512i one = _mm512_set1_epi16(1);
  __m512i sum = _mm512_setzero_si512();
  __m512i squares = _mm512_setzero_si512();
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i x = _mm512_load_si512(sums + kHalf * half);
    const __m512i m = _mm512_permutexvar_epi16(load_factors(factors + kHalf * half), table);
    const __m512i low = _mm512_mullo_epi16(x, m);
    const __m512i floor = _mm512_shldi_epi16(_mm512_mulhi_epi16(x, m), low, 4);
    const __m512i up = _mm512_and_si512(_mm512_srli_epi16(low, 11), one);
    const __m512i r = _mm512_add_epi16(_mm512_add_epi16(floor, up), _mm512_set1_epi16(fraction));
    _mm512_store_si512(above + kHalf * half, r);
    const __m512i seen = _mm512_maskz_mov_epi16(half_of(visible, half), r);
    sum = _mm512_dpwssd_epi32(sum, seen, one);
    squares = _mm512_dpwssd_epi32(squares, seen, seen);
  }
  const __m512i wide =
      _mm512_add_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(squares)),
                       _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(squares, 1)));
  return {_mm512_reduce_add_epi32(sum), _mm512_reduce_add_epi64(wide)};
}

void look_up(const std::uint8_t* factors, const std::int16_t* table, std::int16_t first,
             std::int16_t* numbers) {
  const __m512i numbers_of = _mm512_mask_set1_epi16(load_twice(table), 0x00010001, first);
  for (std::size_t t = 0; t < kTokens; t += kHalf) {
    _mm512_store_si512(numbers + t,
                       _mm512_permutexvar_epi16(load_factors(factors + t), numbers_of));
  }
}

void look_up_some(const std::uint8_t* factors, const std::int16_t* table, std::uint64_t tokens,
                  std::int16_t* numbers) {
  const __m512i numbers_of = load_twice(table);
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own = load_factors(factors + kHalf * half);
    const __mmask32 some = _mm512_mask_test_epi16_mask(half_of(tokens, half), own, own);
    _mm512_mask_storeu_epi16(numbers + kHalf * half, some,
                             _mm512_permutexvar_epi16(own, numbers_of));
  }
}

void refined_sums(const std::uint8_t* const* planes, int count, std::uint64_t tokens,
                  const WeightRows& weights, std::int32_t* sums) {
  const std::size_t row_bytes = weights.dim / 8;
  for (std::uint64_t left = tokens; left != 0; left &= left - 1) {
    const auto t = static_cast<std::size_t>(__builtin_ctzll(left));
    for (std::size_t row = 0; row < weights.rows; ++row) {
      const std::int16_t* const own = weights.weights + row * weights.padded;
      __m512i sum = _mm512_setzero_si512();
      for (std::size_t c = 0; c < weights.dim; c += kHalf) {
        const __m512i weight = load(own + c);
        const std::size_t bytes = weights.dim - c < kHalf ? (weights.dim - c) / 8 : 4;
        for (int plane = 0; plane < count; ++plane) {
          const __m128i word = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1U << bytes) - 1),
                                                    planes[plane] + t * row_bytes + c / 8);
          const auto set = static_cast<__mmask32>(_mm_cvtsi128_si32(word));
          const __m512i unit =
              _mm512_set1_epi16(static_cast<std::int16_t>(1 << (count - 1 - plane)));
          sum = _mm512_dpwssd_epi32(sum, _mm512_maskz_mov_epi16(set, weight), unit);
        }
      }
      sums[row * kTokens + t] =
          2 * _mm512_reduce_add_epi32(sum) - ((1 << count) - 1) * weights.totals[row];
    }
  }
}

}  // namespace

void avx512::set_score_kernels(PageKernels* kernels) {
  kernels->unpack_factors = unpack_factors;
  kernels->count_factors = count_factors;
  kernels->hadamard = hadamard;
  kernels->plane_sums = plane_sums;
  kernels->mean_products = mean_products;
  kernels->score = score;
  kernels->look_up = look_up;
  kernels->look_up_some = look_up_some;
  kernels->refined_sums = refined_sums;
}

}  // namespace nearkv

#endif

// Scores of a page's tokens (ARITHMETIC.md, section 12): sums over planes, and what factors make of
// them. Compiled for AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// Factors of 32 tokens as 16-bit numbers.
__m512i widen_factors(const std::uint8_t* factors) {
  return _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(factors)));
}

void unpack_factors(const std::uint8_t* packed, std::uint8_t* factors) {
  const __m512i pairs =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed)));
  const __m512i both = _mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4));
  _mm512_store_si512(factors, _mm512_and_si512(both, _mm512_set1_epi8(15)));
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

/// Eight tokens' four words each, by word, from a byte of their rows on.
__m512i load_eight(const std::uint8_t* rows, std::size_t row_bytes, std::size_t byte) {
  const __m512i order = _mm512_set_epi16(31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2,
                                         29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
  __m512i tokens;
  if (row_bytes == 8) {
    tokens = load(rows);
  } else if (row_bytes == 16) {
    const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i which = _mm512_add_epi64(even, _mm512_set1_epi64(byte == 0 ? 0 : 1));
    tokens = _mm512_permutex2var_epi64(load(rows), which, load(rows + 64));
  } else {
    const __m512i starts = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                              _mm512_set1_epi64(static_cast<long long>(row_bytes)));
    tokens = _mm512_i64gather_epi64(starts, rows + byte, 1);
  }
  return _mm512_permutexvar_epi16(order, tokens);
}

/// 16 channels of all tokens each.
using Words = std::uint16_t[NKV_MAX_HEAD_DIM / 16][kTokens];

/// words[w][t] = word w of token t's row of `row_bytes`.
void transpose_plane(const std::uint8_t* plane, std::size_t row_bytes, Words& words) {
  std::size_t done = 0;
  for (; done + 8 <= row_bytes; done += 8) {
    for (std::size_t half = 0; half < 2; ++half) {
      __m512i in[4];
      for (std::size_t i = 0; i < 4; ++i) {
        in[i] = load_eight(plane + 8 * (4 * half + i) * row_bytes, row_bytes, done);
      }
      const __m512i a = _mm512_shuffle_i64x2(in[0], in[1], 0x44);  // Words 0 and 1 of both,
      const __m512i b = _mm512_shuffle_i64x2(in[2], in[3], 0x44);
      const __m512i c = _mm512_shuffle_i64x2(in[0], in[1], 0xEE);  // 2 and 3.
      const __m512i d = _mm512_shuffle_i64x2(in[2], in[3], 0xEE);
      const std::size_t first = done / 2;
      const std::size_t token = kHalf * half;
      _mm512_store_si512(words[first] + token, _mm512_shuffle_i64x2(a, b, 0x88));
      _mm512_store_si512(words[first + 1] + token, _mm512_shuffle_i64x2(a, b, 0xDD));
      _mm512_store_si512(words[first + 2] + token, _mm512_shuffle_i64x2(c, d, 0x88));
      _mm512_store_si512(words[first + 3] + token, _mm512_shuffle_i64x2(c, d, 0xDD));
    }
  }
  for (; done < row_bytes; done += 2) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::uint8_t* const from = plane + t * row_bytes + done;
      words[done / 2][t] = static_cast<std::uint16_t>(from[0] | from[1] << 8);
    }
  }
}

/// Sums of kRows rows, whose tables lie `stride` numbers apart.
template <std::size_t kRows>
void sum_rows(const Words& words, std::size_t count, const std::int16_t* tables, std::size_t stride,
              std::int16_t* sums) {
  __m512i sum[kRows][2];
  for (auto& of_row : sum) of_row[0] = of_row[1] = _mm512_setzero_si512();
  const auto add = [&](__m512i first, __m512i second) {
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512i table = load(tables + row * stride);
      sum[row][0] = _mm512_add_epi16(sum[row][0], _mm512_permutexvar_epi16(first, table));
      sum[row][1] = _mm512_add_epi16(sum[row][1], _mm512_permutexvar_epi16(second, table));
    }
    tables += kTableEntries;
  };
  // Indices have neighbours' bits above their five.
  __m512i rest[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::size_t left = kTableBits;
  for (std::size_t word = 0; word < count; ++word) {
    const __m512i first = _mm512_load_si512(words[word]);
    const __m512i second = _mm512_load_si512(words[word] + kHalf);
    add(first, second);
    add(_mm512_srli_epi16(first, 5), _mm512_srli_epi16(second, 5));
    add(_mm512_srli_epi16(first, 10), _mm512_srli_epi16(second, 10));
    rest[0] = _mm512_shldi_epi16(rest[0], first, 1);
    rest[1] = _mm512_shldi_epi16(rest[1], second, 1);
    if (--left != 0 && word + 1 != count) continue;
    add(rest[0], rest[1]);
    left = kTableBits;
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    _mm512_store_si512(sums + row * kTokens, sum[row][0]);
    _mm512_store_si512(sums + row * kTokens + kHalf, sum[row][1]);
  }
}

void plane_sums(const std::uint8_t* plane, std::size_t dim, const std::int16_t* tables,
                std::size_t rows, std::int16_t* sums) {
  alignas(64) Words words;
  transpose_plane(plane, dim / 8, words);
  const std::size_t count = dim / 16;
  const std::size_t stride = plane_tables(dim) * kTableEntries;
  for (; rows >= 4; rows -= 4, tables += 4 * stride, sums += 4 * kTokens) {
    sum_rows<4>(words, count, tables, stride, sums);
  }
  if (rows == 3) sum_rows<3>(words, count, tables, stride, sums);
  if (rows == 2) sum_rows<2>(words, count, tables, stride, sums);
  if (rows == 1) sum_rows<1>(words, count, tables, stride, sums);
}

/// Products of kRows rows, of which each is two times `padded` numbers.
template <std::size_t kRows>
void multiply_rows(const std::int8_t* mean, const std::int16_t* halves, std::size_t dim,
                   std::size_t padded, MeanSums* sums) {
  __m512i upper[kRows];
  __m512i lower[kRows];
  for (std::size_t row = 0; row < kRows; ++row) upper[row] = lower[row] = _mm512_setzero_si512();
  for (std::size_t c = 0; c < dim; c += kHalf) {
    const __m512i numbers = load_mean(mean, dim, c);
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::int16_t* const own = halves + 2 * row * padded + c;
      upper[row] = _mm512_dpwssd_epi32(upper[row], numbers, load(own));
      lower[row] = _mm512_dpwssd_epi32(lower[row], numbers, load(own + padded));
    }
  }
  for (std::size_t row = 0; row < kRows; row += 2) {
    const std::size_t next = row + 1 < kRows ? row + 1 : row;
    const __m128i all = sums_of(upper[row], lower[row], upper[next], lower[next]);
    auto* const to = reinterpret_cast<__m128i*>(sums + row);
    if (next == row) {
      _mm_storel_epi64(to, all);
    } else {
      _mm_storeu_si128(to, all);
    }
  }
}

void mean_products(const std::int8_t* mean, const std::int16_t* halves, std::size_t dim,
                   std::size_t padded, std::size_t rows, MeanSums* sums) {
  for (; rows >= 4; rows -= 4, halves += 8 * padded, sums += 4) {
    multiply_rows<4>(mean, halves, dim, padded, sums);
  }
  if (rows == 3) multiply_rows<3>(mean, halves, dim, padded, sums);
  if (rows == 2) multiply_rows<2>(mean, halves, dim, padded, sums);
  if (rows == 1) multiply_rows<1>(mean, halves, dim, padded, sums);
}

RowWeights round_weights(const std::int32_t* exact, std::size_t dim, std::int16_t* weights) {
  const __m512i low = _mm512_set1_epi64(0xFFFFFFFFLL);
  __m512i sums = _mm512_setzero_si512();
  for (std::size_t c = 0; c < dim; c += 16) {
    const __m512i own = _mm512_abs_epi32(load(exact + c));
    sums = _mm512_add_epi64(
        sums, _mm512_add_epi64(_mm512_and_si512(own, low), _mm512_srli_epi64(own, 32)));
  }
  const auto sum = static_cast<unsigned long long>(_mm512_reduce_add_epi64(sums));
  const int bits = sum == 0 ? 0 : 64 - __builtin_clzll(sum);
  const int power = bits > kWeightBits ? bits - kWeightBits : 0;
  const __m128i first = _mm_cvtsi32_si128(power > 0 ? power - 1 : 0);
  const __m128i last = _mm_cvtsi32_si128(power > 0 ? 1 : 0);
  const __m512i half = _mm512_set1_epi32(power > 0 ? 1 : 0);
  __m512i length = _mm512_setzero_si512();
  __m512i total = _mm512_setzero_si512();
  for (std::size_t c = 0; c < dim; c += 16) {
    const __m512i own =
        _mm512_sra_epi32(_mm512_add_epi32(_mm512_sra_epi32(load(exact + c), first), half), last);
    length = _mm512_add_epi32(length, _mm512_abs_epi32(own));
    total = _mm512_add_epi32(total, own);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + c), _mm512_cvtepi32_epi16(own));
  }
  return {power, _mm512_reduce_add_epi32(length), _mm512_reduce_add_epi32(total)};
}

/// What five weights add to a sum, by their bits.
void tabulate_five(const std::int16_t* weights, std::int16_t* table) {
  // Signs of two weights by bits 0 and 1, and by bits 2 and 3.
  const __m512i minus = _mm512_set1_epi16(-1);
  const __m512i first = _mm512_mask_mov_epi16(minus, 0xE4E4E4E4, _mm512_set1_epi16(1));
  const __m512i second = _mm512_mask_mov_epi16(minus, 0xFFAA5500, _mm512_set1_epi16(1));
  const __m512i four =
      _mm512_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights)));
  const __m512i some =
      _mm512_dpwssd_epi32(_mm512_setzero_si512(), first, _mm512_shuffle_epi32(four, _MM_PERM_AAAA));
  const __m256i sums = _mm512_cvtepi32_epi16(
      _mm512_dpwssd_epi32(some, second, _mm512_shuffle_epi32(four, _MM_PERM_BBBB)));
  const __m256i fifth = _mm256_set1_epi16(weights[4]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(table), _mm256_sub_epi16(sums, fifth));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(table + 16), _mm256_add_epi16(sums, fifth));
}

void tabulate(const std::int16_t* weights, std::size_t dim, std::int16_t* tables) {
  const std::size_t words = dim / 16;
  for (std::size_t first = 0; first < words; first += kTableBits) {
    const std::size_t count = words - first < kTableBits ? words - first : kTableBits;
    std::int16_t rest[kTableBits] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const std::int16_t* const own = weights + 16 * (first + i);
      for (std::size_t group = 0; group < 3; ++group, tables += kTableEntries) {
        tabulate_five(own + kTableBits * group, tables);
      }
      rest[count - 1 - i] = own[15];
    }
    tabulate_five(rest, tables);
    tables += kTableEntries;
  }
}

/// Factors of 16 tokens, from four bits a token, as numbers with other bits above the four.
__m512i load_few_factors(const std::uint8_t* packed) {
  const __m512i pairs =
      _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed)));
  return _mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28));
}

bool score(const std::int16_t* sums, const ScoredPage& page, const ScoredRow* rows,
           std::size_t count, std::int16_t* above, ScoreSums* totals) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i quiet = _mm512_set1_epi16(kQuietProduct);
  const __m512i low = _mm512_set1_epi32(0xFFFF);
  const __m512i factors[2] = {load_factors(page.factors, 0), load_factors(page.factors, 1)};
  __mmask32 loud = 0;
  __m512i few_factors[4];
  for (std::size_t i = 0; i < 4; ++i) few_factors[i] = load_few_factors(page.factors + 8 * i);
  for (std::size_t row = 0; row < count; ++row, sums += kTokens, above += kTokens) {
    const __m512i multipliers =
        _mm512_maskz_mov_epi16(0xFFFEFFFE, load_table(rows[row].multipliers));
    const __m512i fraction = _mm512_set1_epi16(rows[row].fraction);
    __m512i sum = _mm512_setzero_si512();
    __m512i squares = _mm512_setzero_si512();
    for (std::size_t half = 0; half < 2; ++half) {
      const __m512i x = load(sums + kHalf * half);
      const __m512i m = _mm512_permutexvar_epi16(factors[half], multipliers);
      const __m512i upper = _mm512_mulhi_epi16(x, m);
      loud |= _mm512_cmpge_epu16_mask(_mm512_add_epi16(upper, quiet),
                                      _mm512_set1_epi16(2 * kQuietProduct));
      // Rounded: the lower 16 bits are without sign.
      const __m512i lower = _mm512_srli_epi16(_mm512_mullo_epi16(x, m), 11);
      const __m512i residual = _mm512_add_epi16(_mm512_slli_epi16(upper, 4),
                                                _mm512_avg_epu16(lower, _mm512_setzero_si512()));
      const __m512i r = _mm512_add_epi16(residual, fraction);
      _mm512_store_si512(above + kHalf * half, r);
      const __m512i seen = _mm512_maskz_mov_epi16(half_of(page.visible, half), r);
      sum = _mm512_dpwssd_epi32(sum, seen, one);
      squares = _mm512_dpwssd_epi32(squares, seen, seen);
    }
    const __m512i terms = load(rows[row].noise);
    __m512i noise = _mm512_setzero_si512();
    for (std::size_t i = 0; i < 4; ++i) {
      const auto visible = static_cast<__mmask16>(page.visible >> (16 * i));
      noise =
          _mm512_add_epi32(noise, _mm512_maskz_permutexvar_epi32(visible, few_factors[i], terms));
    }
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(totals + row),
        sums_of(sum, noise, _mm512_and_si512(squares, low), _mm512_srli_epi32(squares, 16)));
  }
  return loud != 0;
}

void look_up_some(const std::uint8_t* factors, const std::int16_t* table, std::uint64_t tokens,
                  std::int16_t* numbers) {
  const __m512i numbers_of = load_table(table);
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own = widen_factors(factors + kHalf * half);
    const __mmask32 some = _mm512_mask_test_epi16_mask(half_of(tokens, half), own, own);
    _mm512_mask_storeu_epi16(numbers + kHalf * half, some,
                             _mm512_permutexvar_epi16(own, numbers_of));
  }
}

}  // namespace

void avx512::set_score_kernels(PageKernels* kernels) {
  kernels->unpack_factors = unpack_factors;
  kernels->hadamard = hadamard;
  kernels->plane_sums = plane_sums;
  kernels->mean_products = mean_products;
  kernels->round_weights = round_weights;
  kernels->tabulate = tabulate;
  kernels->score = score;
  kernels->look_up_some = look_up_some;
}

}  // namespace nearkv

#endif

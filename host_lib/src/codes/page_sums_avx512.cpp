// Sums of a page's weighted values (ARITHMETIC.md, section 13.2). Compiled for AVX-512: see the
// header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// Weights of values as numbers by which these are multiplied.
template <typename T>
void take_weights(const Weighted<T>& values, double* weights) {
  for (std::size_t at = 0; at < values.count * values.rows; at += 8) {
    const std::size_t left = values.count * values.rows - at;
    const auto mask = static_cast<__mmask8>(left < 8 ? (1U << left) - 1 : 0xFFU);
    const __m256i shifts = _mm256_maskz_loadu_epi32(mask, values.shifts + at);
    const __m512d weight = _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(mask, values.weights + at));
    const __m512d power = _mm512_cvtepi32_pd(_mm256_sub_epi32(_mm256_setzero_si256(), shifts));
    _mm512_storeu_pd(weights + at, _mm512_scalef_pd(weight, power));
  }
}

__m512i load_sixteen(const std::int8_t* numbers) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
}
__m512i load_sixteen(const std::int32_t* numbers) { return load(numbers); }

/// Sixteen channels of kRows rows. A product has less than 2^42: added to 1.5 * 2^52 and rounded
/// down, its floor is what the sum's bits have more than those of that number.
template <std::size_t kRows, typename T>
void add_sixteen(const Weighted<T>& values, const double* weights, std::size_t channel,
                 std::int64_t* acc) {
  const __m512d middle = _mm512_set1_pd(0x1.8p52);
  __m512i sums[kRows][2];
  for (auto& sum : sums) sum[0] = sum[1] = _mm512_setzero_si512();
  for (std::size_t at = 0; at < values.count; ++at, weights += values.rows) {
    const __m512i own = load_sixteen(values.values[at] + channel);
    const __m512d value[2] = {_mm512_cvtepi32_pd(_mm512_castsi512_si256(own)),
                              _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(own, 1))};
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512d weight = _mm512_set1_pd(weights[row]);
      for (std::size_t i = 0; i < 2; ++i) {
        const __m512d floor = _mm512_fmadd_round_pd(value[i], weight, middle,
                                                    _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        sums[row][i] = _mm512_add_epi64(sums[row][i], _mm512_castpd_si512(floor));
      }
    }
  }
  const __m512i middles = _mm512_mullo_epi64(
      _mm512_castpd_si512(middle), _mm512_set1_epi64(static_cast<long long>(values.count)));
  for (std::size_t row = 0; row < kRows; ++row) {
    std::int64_t* const own = acc + row * values.dim + channel;
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i sum = _mm512_sub_epi64(sums[row][i], middles);
      _mm512_storeu_si512(own + 8 * i, _mm512_add_epi64(load(own + 8 * i), sum));
    }
  }
}

template <std::size_t kRows, typename T>
void add_rows(const Weighted<T>& values, const double* weights, std::int64_t* acc) {
  for (std::size_t c = 0; c < values.dim; c += 16) add_sixteen<kRows>(values, weights, c, acc);
}

template <typename T>
void add_weighted(const Weighted<T>& values, std::int64_t* acc) {
  double weights[kPagesOfMeans * NKV_MAX_GROUP + 8];
  take_weights(values, weights);
  std::size_t row = 0;
  for (; row + 4 <= values.rows; row += 4) {
    add_rows<4>(values, weights + row, acc + row * values.dim);
  }
  const std::size_t left = values.rows - row;
  if (left == 3) add_rows<3>(values, weights + row, acc + row * values.dim);
  if (left == 2) add_rows<2>(values, weights + row, acc + row * values.dim);
  if (left == 1) add_rows<1>(values, weights + row, acc + row * values.dim);
}

/// acc[0..8) += what `floor` makes of eight products.
template <typename Floor>
void add_products(__m256i numbers, __m512i mantissa, const Floor& floor, std::int64_t* acc) {
  const __m512i product = _mm512_mul_epi32(_mm512_cvtepi32_epi64(numbers), mantissa);
  _mm512_storeu_si512(acc, _mm512_add_epi64(load(acc), floor(product)));
}

template <typename Floor>
void add_signed_by(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                   __m512i mantissa, const Floor& floor, std::int64_t* acc) {
  for (std::size_t c = 0; c < dim; c += 16) {
    const __mmask16 signs =
        _mm256_movepi16_mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(minus + c)));
    const __m512i own = load(numbers + c);
    const __m512i number = _mm512_mask_sub_epi32(own, signs, _mm512_setzero_si512(), own);
    add_products(_mm512_castsi512_si256(number), mantissa, floor, acc + c);
    add_products(_mm512_extracti64x4_epi64(number, 1), mantissa, floor, acc + c + 8);
  }
}

void add_signed(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                std::int32_t mantissa, int power, int most, std::int64_t* acc) {
  constexpr int kProductBits = 43;
  const __m512i mantissas = _mm512_set1_epi64(std::int64_t{mantissa});
  const int up = power > 0 ? power : 0;
  const __m128i left = _mm_cvtsi32_si128(up);
  const __m128i right = _mm_cvtsi32_si128(up - power);
  if (most - up >= kProductBits) {
    const auto shift = [&](__m512i product) {
      return _mm512_sll_epi64(_mm512_sra_epi64(product, right), left);
    };
    add_signed_by(numbers, minus, dim, mantissas, shift, acc);
    return;
  }
  const __m512i largest = _mm512_set1_epi64(std::int64_t{1} << (most - up));
  const __m512i least = _mm512_sub_epi64(_mm512_setzero_si512(), largest);
  const auto shift_bounded = [&](__m512i product) {
    const __m512i floor = _mm512_sra_epi64(product, right);
    return _mm512_sll_epi64(_mm512_max_epi64(_mm512_min_epi64(floor, largest), least), left);
  };
  add_signed_by(numbers, minus, dim, mantissas, shift_bounded, acc);
}

void expand_delta4(const std::uint8_t* row, const std::uint8_t* exponents, std::size_t dim,
                   std::uint16_t* expanded) {
  for (std::size_t c = 0; c < dim; c += kHalf) {
    const __mmask32 some = dim - c < kHalf ? 0xFFFF : ~__mmask32{0};
    const __m512i own = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(some, row + c));
    const __m512i base = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(some, exponents + c));
    const auto some_pairs = static_cast<__mmask16>(dim - c < kHalf ? 0xFF : 0xFFFF);
    const __m512i pairs = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some_pairs, row + dim + c / 2));
    const __m512i nibbles = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12)),
                                             _mm512_set1_epi16(15));
    const __m512i exponent = _mm512_slli_epi16(_mm512_add_epi16(base, nibbles), 7);
    // Sign and mantissa apart: bit 7 moves up to 15.
    const __m512i sign = _mm512_slli_epi16(_mm512_srli_epi16(own, 7), 15);
    const __m512i mantissa = _mm512_and_si512(own, _mm512_set1_epi16(0x7F));
    const __m512i bits = _mm512_or_si512(_mm512_or_si512(sign, exponent), mantissa);
    const __mmask32 kept = _mm512_test_epi16_mask(nibbles, nibbles);
    _mm512_mask_storeu_epi16(expanded + c, some, _mm512_maskz_mov_epi16(kept, bits));
  }
}

void align_bf16(const std::uint16_t* row, std::size_t dim, int exponent, std::int32_t* value) {
  const __m512i top = _mm512_set1_epi32(exponent);
  const __m512i mask = _mm512_set1_epi32(0xFF);
  for (std::size_t c = 0; c < dim; c += 16) {
    const __m512i bits =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + c)));
    const __m512i own = _mm512_and_si512(_mm512_srli_epi32(bits, 7), mask);
    const __mmask16 is_some =
        _mm512_test_epi32_mask(own, own) & _mm512_cmpneq_epi32_mask(own, mask);
    const __m512i significand = _mm512_slli_epi32(
        _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x7F)), _mm512_set1_epi32(0x80)),
        16);
    const __m512i shift = _mm512_max_epi32(_mm512_sub_epi32(top, own), _mm512_setzero_si512());
    const __m512i magnitude = _mm512_maskz_srlv_epi32(is_some, significand, shift);
    const __mmask16 minus = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x8000));
    _mm512_storeu_si512(value + c,
                        _mm512_mask_sub_epi32(magnitude, minus, _mm512_setzero_si512(), magnitude));
  }
}

constexpr std::size_t kQuads = kTokens / kQuad;
constexpr std::size_t kBlock = 16;  ///< Channels of a vector.
constexpr std::size_t kBlocks = NKV_MAX_HEAD_DIM / kBlock;
constexpr std::size_t kRowsAtATime = 4;

/// What planes say of 16 channels of four tokens, as bytes side by side without sign: by block and
/// quad.
using QuadNumbers = __m512i[kBlocks][kQuads];

/// First tokens of the quads that a set has tokens of. Gives how many there are.
std::size_t list_quads(std::uint64_t tokens, std::size_t* quads) {
  std::size_t count = 0;
  while (tokens != 0) {
    const auto token = static_cast<std::size_t>(__builtin_ctzll(tokens)) / kQuad * kQuad;
    tokens &= ~(std::uint64_t{15} << token);
    quads[count++] = token;
  }
  return count;
}

/// The words of four tokens' rows of a plane, those of a block together, `up` bits higher.
void gather_words(const std::uint8_t* plane, std::size_t row_bytes, std::size_t token, unsigned up,
                  std::uint64_t* words) {
  const __m512i order = _mm512_set_epi16(31, 23, 15, 7, 30, 22, 14, 6, 29, 21, 13, 5, 28, 20, 12, 4,
                                         27, 19, 11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0);
  for (std::size_t byte = 0; byte < row_bytes; byte += 16, words += 8) {
    const __m512i quad = load_quad(plane, row_bytes, token, byte);
    const __m512i by_block = _mm512_permutexvar_epi16(order, quad);
    _mm512_store_si512(words, _mm512_rolv_epi64(by_block, _mm512_set1_epi64(up)));
  }
}

/// Numbers of one quad, of kPlanes planes. Tokens of `lacking` have no third one.
template <std::size_t kPlanes>
void unpack_quad(const PlaneRows& values, std::size_t token, std::size_t quad, unsigned lacking,
                 QuadNumbers& numbers) {
  alignas(64) std::uint64_t words[kPlanes][kBlocks + 12];
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    // What a plane says lies by so much the higher in its bytes.
    gather_words(values.planes[plane], values.dim / 8, token, static_cast<unsigned>(2 - plane),
                 words[plane]);
  }
  const std::size_t blocks = values.dim / kBlock;
  if (lacking != 0) {
    const __m128i own = _mm_maskz_set1_epi16(static_cast<__mmask8>(~lacking), -1);
    for (std::size_t block = 0; block < blocks; ++block) {
      words[kPlanes - 1][block] &= static_cast<std::uint64_t>(_mm_cvtsi128_si64(own));
    }
  }
  const __m512i places = _mm512_add_epi32(
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(0x01010101)),
      _mm512_set1_epi32(0x30201000));
  for (std::size_t block = 0; block < blocks; ++block) {
    __m512i bits[kPlanes];
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      bits[plane] = _mm512_set1_epi64(static_cast<long long>(words[plane][block]));
    }
    numbers[block][quad] = merge_planes<kPlanes, 3 - static_cast<int>(kPlanes)>(bits, places);
  }
}

/// Shares of a few rows as two signed bytes each, upper * 2^8 + lower, a quad's in all lanes.
struct SplitShares {
  __m512i upper[kRowsAtATime][kQuads];
  __m512i lower[kRowsAtATime][kQuads];
  std::int32_t middles[kRowsAtATime];  ///< What sums have too much, since numbers have no sign.
};

void split_row(const std::uint16_t* shares, const PlaneRows& values, const std::size_t* quads,
               std::size_t count, std::size_t row, SplitShares* split) {
  const std::uint64_t three = values.tokens[3];
  alignas(64) std::int8_t upper[kTokens];
  alignas(64) std::int8_t lower[kTokens];
  __m512i middle = _mm512_setzero_si512();
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own =
        _mm512_maskz_loadu_epi16(half_of(values.tokens[2] | three, half), shares + kHalf * half);
    // Of two planes 6 is the middle, of three 7.
    middle = _mm512_dpwssd_epi32(middle, own, _mm512_set1_epi16(6));
    middle = _mm512_dpwssd_epi32(middle, own, _mm512_maskz_set1_epi16(half_of(three, half), 1));
    const __m512i high = _mm512_srai_epi16(_mm512_add_epi16(own, _mm512_set1_epi16(1 << 7)), 8);
    _mm256_store_si256(reinterpret_cast<__m256i*>(upper + kHalf * half),
                       _mm512_cvtepi16_epi8(high));
    _mm256_store_si256(reinterpret_cast<__m256i*>(lower + kHalf * half), _mm512_cvtepi16_epi8(own));
  }
  split->middles[row] = _mm512_reduce_add_epi32(middle);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t four;
    __builtin_memcpy(&four, upper + quads[i], sizeof(four));
    split->upper[row][i] = _mm512_set1_epi32(four);
    __builtin_memcpy(&four, lower + quads[i], sizeof(four));
    split->lower[row][i] = _mm512_set1_epi32(four);
  }
}

/// A block of kRows rows' sums over quads.
template <std::size_t kRows>
void sum_block(const __m512i* numbers, std::size_t quads, const SplitShares& shares,
               std::size_t dim, std::int32_t* sums) {
  __m512i upper[kRows];
  __m512i lower[kRows];
  for (std::size_t row = 0; row < kRows; ++row) upper[row] = lower[row] = _mm512_setzero_si512();
  for (std::size_t quad = 0; quad < quads; ++quad) {
    const __m512i own = numbers[quad];
    for (std::size_t row = 0; row < kRows; ++row) {
      upper[row] = _mm512_dpbusd_epi32(upper[row], own, shares.upper[row][quad]);
      lower[row] = _mm512_dpbusd_epi32(lower[row], own, shares.lower[row][quad]);
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(upper[row], 8), lower[row]);
    _mm512_storeu_si512(sums + row * dim, _mm512_sub_epi32(_mm512_slli_epi32(sum, 1),
                                                           _mm512_set1_epi32(shares.middles[row])));
  }
}

void coded_sums(const PlaneRows& values, const std::uint16_t* shares, std::size_t rows,
                std::int32_t* sums) {
  QuadNumbers numbers;
  std::size_t quads[kQuads];
  const std::size_t count = list_quads(values.tokens[2] | values.tokens[3], quads);
  for (std::size_t i = 0; i < count; ++i) {
    const auto two = static_cast<unsigned>(values.tokens[2] >> quads[i] & 15);
    if ((values.tokens[3] >> quads[i] & 15) == 0) {
      unpack_quad<2>(values, quads[i], i, 0, numbers);
    } else {
      unpack_quad<3>(values, quads[i], i, two, numbers);
    }
  }
  const std::size_t dim = values.dim;
  for (std::size_t row = 0; row < rows; row += kRowsAtATime) {
    SplitShares split;
    const std::size_t some = rows - row < kRowsAtATime ? rows - row : kRowsAtATime;
    for (std::size_t i = 0; i < some; ++i) {
      split_row(shares + (row + i) * kTokens, values, quads, count, i, &split);
    }
    for (std::size_t block = 0; block < dim / kBlock; ++block) {
      std::int32_t* const to = sums + row * dim + block * kBlock;
      if (some == 4) sum_block<4>(numbers[block], count, split, dim, to);
      if (some == 3) sum_block<3>(numbers[block], count, split, dim, to);
      if (some == 2) sum_block<2>(numbers[block], count, split, dim, to);
      if (some == 1) sum_block<1>(numbers[block], count, split, dim, to);
    }
  }
}

}  // namespace

void avx512::set_sum_kernels(PageKernels* kernels) {
  kernels->add_means = add_weighted<std::int8_t>;
  kernels->add_values = add_weighted<std::int32_t>;
  kernels->add_signed = add_signed;
  kernels->expand_delta4 = expand_delta4;
  kernels->align_bf16 = align_bf16;
  kernels->coded_sums = coded_sums;
}

}  // namespace nearkv

#endif

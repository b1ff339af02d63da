// Sums of a page's weighted values (ARITHMETIC.md, section 13.2). Compiled for AVX-512: see the
// header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// Weights of means as numbers by which a mean is multiplied. True if a product may need flooring.
bool take_weights(const WeightedMeans& means, double* weights) {
  __mmask8 any = 0;
  for (std::size_t at = 0; at < means.pages * means.rows; at += 8) {
    const std::size_t left = means.pages * means.rows - at;
    const auto mask = static_cast<__mmask8>(left < 8 ? (1U << left) - 1 : 0xFFU);
    const __m256i shifts = _mm256_maskz_loadu_epi32(mask, means.shifts + at);
    any |= _mm256_cmpgt_epi32_mask(shifts, _mm256_setzero_si256());
    const __m512d weight = _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(mask, means.weights + at));
    const __m512d power = _mm512_cvtepi32_pd(_mm256_sub_epi32(_mm256_setzero_si256(), shifts));
    _mm512_storeu_pd(weights + at, _mm512_scalef_pd(weight, power));
  }
  return any != 0;
}

/// Sixteen channels of kRows rows. Products of a page have less than 2^42, so that sums of
/// kPagesOfMeans of them are exact as floating-point numbers.
template <std::size_t kRows, bool kFloors>
void add_sixteen(const WeightedMeans& means, const double* weights, std::size_t channel,
                 std::int64_t* acc) {
  __m512d sums[kRows][2];
  for (auto& sum : sums) sum[0] = sum[1] = _mm512_setzero_pd();
  for (std::size_t page = 0; page < means.pages; ++page, weights += means.rows) {
    const __m512i wide = _mm512_cvtepi8_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(means.means[page] + channel)));
    const __m512d mean[2] = {_mm512_cvtepi32_pd(_mm512_castsi512_si256(wide)),
                             _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(wide, 1))};
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512d weight = _mm512_set1_pd(weights[row]);
      for (std::size_t i = 0; i < 2; ++i) {
        sums[row][i] =
            kFloors ? _mm512_add_pd(sums[row][i],
                                    _mm512_roundscale_pd(_mm512_mul_pd(mean[i], weight),
                                                         _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
                    : _mm512_fmadd_pd(mean[i], weight, sums[row][i]);
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    std::int64_t* const own = acc + row * means.dim + channel;
    for (std::size_t i = 0; i < 2; ++i) {
      _mm512_storeu_si512(own + 8 * i,
                          _mm512_add_epi64(load(own + 8 * i), _mm512_cvtpd_epi64(sums[row][i])));
    }
  }
}

template <std::size_t kRows>
void add_rows(const WeightedMeans& means, const double* weights, bool floors, std::int64_t* acc) {
  for (std::size_t c = 0; c < means.dim; c += 16) {
    if (floors) {
      add_sixteen<kRows, true>(means, weights, c, acc);
    } else {
      add_sixteen<kRows, false>(means, weights, c, acc);
    }
  }
}

void add_means(const WeightedMeans& means, std::int64_t* acc) {
  double weights[kPagesOfMeans * NKV_MAX_GROUP + 8];
  const bool floors = take_weights(means, weights);
  std::size_t row = 0;
  for (; row + 4 <= means.rows; row += 4) {
    add_rows<4>(means, weights + row, floors, acc + row * means.dim);
  }
  const std::size_t left = means.rows - row;
  if (left == 3) add_rows<3>(means, weights + row, floors, acc + row * means.dim);
  if (left == 2) add_rows<2>(means, weights + row, floors, acc + row * means.dim);
  if (left == 1) add_rows<1>(means, weights + row, floors, acc + row * means.dim);
}

void add_value(const std::int32_t* value, std::size_t dim, std::int32_t weight, int shift,
               std::int64_t* acc) {
  const __m512i weights = _mm512_set1_epi64(std::int64_t{weight});
  const __m128i right = _mm_cvtsi32_si128(shift);
  for (std::size_t c = 0; c < dim; c += 8) {
    const __m512i number =
        _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(value + c)));
    const __m512i product = _mm512_mul_epi32(number, weights);
    _mm512_storeu_si512(acc + c, _mm512_add_epi64(load(acc + c), _mm512_sra_epi64(product, right)));
  }
}

void add_signed(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                std::int32_t mantissa, int shift, std::int64_t most, std::int64_t* acc) {
  const __m512i mantissas = _mm512_set1_epi64(std::int64_t{mantissa});
  const __m128i right = _mm_cvtsi32_si128(shift);
  const __m512i largest = _mm512_set1_epi64(most);
  const __m512i least = _mm512_set1_epi64(-most);
  for (std::size_t c = 0; c < dim; c += 8) {
    const __m256i sign =
        _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(minus + c)));
    const __m256i number = _mm256_sub_epi32(
        _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + c)), sign),
        sign);
    const __m512i product = _mm512_mul_epi32(_mm512_cvtepi32_epi64(number), mantissas);
    const __m512i bounded =
        _mm512_max_epi64(_mm512_min_epi64(_mm512_sra_epi64(product, right), largest), least);
    _mm512_storeu_si512(acc + c, _mm512_add_epi64(load(acc + c), bounded));
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

__mmask64 load_bits(const std::uint8_t* from, std::size_t bytes) {
  const __mmask16 all = static_cast<__mmask16>((1U << bytes) - 1);
  const __m128i word = _mm_maskz_loadu_epi8(all, from);
  return static_cast<__mmask64>(_mm_cvtsi128_si64(word));
}

/// What the planes of a token say of 64 channels, as bytes.
__m512i coded_values(const CodedValues& values, std::size_t token, std::size_t byte,
                     std::size_t bytes) {
  const std::size_t at = token * (values.dim / 8) + byte;
  const bool are_three = values.counts[token] == 3;
  __m512i sum = _mm512_set1_epi8(are_three ? -7 : -6);
  sum =
      _mm512_mask_add_epi8(sum, load_bits(values.planes[0] + at, bytes), sum, _mm512_set1_epi8(8));
  sum =
      _mm512_mask_add_epi8(sum, load_bits(values.planes[1] + at, bytes), sum, _mm512_set1_epi8(4));
  if (!are_three) return sum;
  return _mm512_mask_add_epi8(sum, load_bits(values.planes[2] + at, bytes), sum,
                              _mm512_set1_epi8(2));
}

void coded_sums(const CodedValues& values, std::size_t rows, std::int32_t* sums) {
  constexpr std::size_t kChannels = 64;
  std::size_t tokens[kTokens];
  std::size_t count = 0;
  for (std::uint64_t left = values.tokens; left != 0; left &= left - 1) {
    tokens[count++] = static_cast<std::size_t>(__builtin_ctzll(left));
  }
  alignas(64) std::int16_t pairs[kTokens / 2][2 * kChannels];
  for (std::size_t first = 0; first < values.dim; first += kChannels) {
    const std::size_t bytes = values.dim - first < kChannels ? (values.dim - first) / 8 : 8;
    for (std::size_t i = 0; i < count; i += 2) {
      const __m512i a = coded_values(values, tokens[i], first / 8, bytes);
      const __m512i b = i + 1 < count ? coded_values(values, tokens[i + 1], first / 8, bytes)
                                      : _mm512_setzero_si512();
      for (std::size_t half = 0; half < 2; ++half) {
        const __m512i wide_a = _mm512_cvtepi8_epi16(half == 0 ? _mm512_castsi512_si256(a)
                                                              : _mm512_extracti64x4_epi64(a, 1));
        const __m512i wide_b = _mm512_cvtepi8_epi16(half == 0 ? _mm512_castsi512_si256(b)
                                                              : _mm512_extracti64x4_epi64(b, 1));
        _mm512_store_si512(pairs[i / 2] + 64 * half, _mm512_unpacklo_epi16(wide_a, wide_b));
        _mm512_store_si512(pairs[i / 2] + 64 * half + 32, _mm512_unpackhi_epi16(wide_a, wide_b));
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint16_t* const shares = values.shares + row * kTokens;
      __m512i acc[4];
      for (__m512i& sum : acc) sum = _mm512_setzero_si512();
      for (std::size_t i = 0; i < count; i += 2) {
        const std::uint32_t second = i + 1 < count ? shares[tokens[i + 1]] : 0U;
        const __m512i both =
            _mm512_set1_epi32(static_cast<std::int32_t>(shares[tokens[i]] | second << 16));
        for (std::size_t v = 0; v < 4; ++v) {
          acc[v] = _mm512_dpwssd_epi32(acc[v], _mm512_load_si512(pairs[i / 2] + 32 * v), both);
        }
      }
      // Lower ones of eight, and upper ones.
      const __m512i low = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
      const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
      std::int32_t* const to = sums + row * values.padded + first;
      for (std::size_t half = 0; half < 2; ++half) {
        _mm512_storeu_si512(to + 32 * half,
                            _mm512_permutex2var_epi32(acc[2 * half], low, acc[2 * half + 1]));
        _mm512_storeu_si512(to + 32 * half + 16,
                            _mm512_permutex2var_epi32(acc[2 * half], high, acc[2 * half + 1]));
      }
    }
  }
}

}  // namespace

void avx512::set_sum_kernels(PageKernels* kernels) {
  kernels->add_means = add_means;
  kernels->add_value = add_value;
  kernels->add_signed = add_signed;
  kernels->align_bf16 = align_bf16;
  kernels->coded_sums = coded_sums;
}

}  // namespace nearkv

#endif

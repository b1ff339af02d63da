// Sums of a page's weighted values (ARITHMETIC.md, section 13.2). Compiled for AVX-512: see the
// header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// acc[0..8) += number * weight * 2^-shift, floored.
void add_eight(__m512i number, __m512i weight, __m128i shift, __mmask8 mask, std::int64_t* acc) {
  const __m512i product = _mm512_mul_epi32(number, weight);
  const __m512i sum =
      _mm512_add_epi64(_mm512_maskz_loadu_epi64(mask, acc), _mm512_sra_epi64(product, shift));
  _mm512_mask_storeu_epi64(acc, mask, sum);
}

void add_mean(const std::int8_t* mean, std::size_t dim, int power, std::int32_t weight, int shift,
              std::int64_t* acc) {
  // With the power in the weight the product has less than 43 bits, but the weight 34: what can
  // leaves with the shift.
  const int common = power < shift ? power : shift;
  const __m512i weights = _mm512_set1_epi64(std::int64_t{weight});
  const __m128i right = _mm_cvtsi32_si128(shift - common);
  const __m128i left = _mm_cvtsi32_si128(power - common);
  for (std::size_t c = 0; c < dim; c += 8) {
    const __m512i number =
        _mm512_cvtepi8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(mean + c)));
    add_eight(_mm512_sll_epi64(number, left), weights, right, 0xFF, acc + c);
  }
}

void add_value(const std::int32_t* value, std::size_t dim, std::int32_t weight, int shift,
               std::int64_t* acc) {
  const __m512i weights = _mm512_set1_epi64(std::int64_t{weight});
  const __m128i right = _mm_cvtsi32_si128(shift);
  for (std::size_t c = 0; c < dim; c += 8) {
    const __m512i number =
        _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(value + c)));
    add_eight(number, weights, right, 0xFF, acc + c);
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
  kernels->add_mean = add_mean;
  kernels->add_value = add_value;
  kernels->add_signed = add_signed;
  kernels->align_bf16 = align_bf16;
  kernels->coded_sums = coded_sums;
}

}  // namespace nearkv

#endif

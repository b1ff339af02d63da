// Totals of granules' errors (ARITHMETIC.md, sections 13.3 and 13.4). Compiled for AVX-512: see the
// header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

void output_products(const std::int8_t* const* means, std::size_t pages, const std::int16_t* output,
                     std::size_t dim, std::int64_t* products) {
  for (std::size_t page = 0; page < pages; page += 4) {
    const std::size_t left = pages - page;
    __m512i sums[4];
    for (std::size_t i = 0; i < 4; ++i) {
      sums[i] = _mm512_setzero_si512();
      const std::int8_t* const mean = means[page + (i < left ? i : 0)];
      for (std::size_t c = 0; c < dim; c += kHalf) {
        sums[i] = _mm512_dpwssd_epi32(sums[i], load_mean(mean, dim, c), load(output + c));
      }
    }
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                        _mm512_unpackhi_epi32(sums[0], sums[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                        _mm512_unpackhi_epi32(sums[2], sums[3]));
    const __m512i all =
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m512i wide = _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(all)),
                                          _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(all, 1)));
    const __m256i four =
        _mm256_add_epi64(_mm512_castsi512_si256(wide), _mm512_extracti64x4_epi64(wide, 1));
    const auto some = static_cast<__mmask8>(left < 4 ? (1U << left) - 1 : 15U);
    _mm256_mask_storeu_epi64(products + page, some, four);
  }
}

/// A: what a sum of logarithms has more than the larger one, by their distance.
class SumExcess {
 public:
  SumExcess() {
    const KernelTables& tables = kernel_tables();
    near_ = load(tables.sum_excess);
    far_ = load(tables.sum_excess + 64);
  }
  /// Distances are at most 127.
  [[nodiscard]] __m512i of(__m512i distances, __m512i low_bytes) const {
    return _mm512_and_si512(_mm512_permutex2var_epi8(near_, distances, far_), low_bytes);
  }

 private:
  __m512i near_;
  __m512i far_;
};

void mean_distances(const DistantMeans& means, std::int32_t* distances) {
  const KernelTables& tables = kernel_tables();
  const SumExcess excess;
  const __m512i first_steps = load(tables.first_steps);
  const __m512i before_steps = load(tables.before_steps);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i output_power = _mm512_set1_epi64(means.output_power);
  for (std::size_t page = 0; page < means.pages; page += 8) {
    const std::size_t left = means.pages - page;
    const auto some = static_cast<__mmask8>(left < 8 ? (1U << left) - 1 : 0xFFU);
    const __m512i power =
        _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(some, means.powers + page));
    const __m512i apart = _mm512_sub_epi64(power, output_power);
    const __m512i above = _mm512_max_epi64(apart, zero);
    const __m512i below = _mm512_sub_epi64(above, apart);
    const __m512i squares = _mm512_sllv_epi64(_mm512_maskz_loadu_epi64(some, means.squares + page),
                                              _mm512_add_epi64(above, above));
    const __m512i others =
        _mm512_sllv_epi64(_mm512_set1_epi64(means.output_squares), _mm512_add_epi64(below, below));
    const __m512i products =
        _mm512_sllv_epi64(_mm512_maskz_loadu_epi64(some, means.products + page),
                          _mm512_add_epi64(_mm512_add_epi64(above, below), _mm512_set1_epi64(1)));
    const __m512i distance = _mm512_sub_epi64(_mm512_add_epi64(squares, others), products);
    const __m512i zeros = _mm512_lzcnt_epi64(distance);
    const __m512i top = _mm512_srli_epi64(_mm512_sllv_epi64(distance, zeros), 48);
    const __m512i first =
        _mm512_maskz_permutexvar_epi16(0x11111111, _mm512_srli_epi64(top, 10), first_steps);
    const __m512i step = _mm512_maskz_permutexvar_epi16(0x11111111, first, before_steps);
    const __mmask8 reached = _mm512_cmpgt_epu64_mask(top, step);
    const __m512i low = _mm512_mask_add_epi64(first, reached, first, _mm512_set1_epi64(1));
    const __m512i octaves =
        _mm512_add_epi64(_mm512_slli_epi64(_mm512_sub_epi64(_mm512_set1_epi64(63), zeros), 4),
                         _mm512_slli_epi64(_mm512_min_epi64(power, output_power), 5));
    const __m512i log = _mm512_mask_add_epi64(
        _mm512_set1_epi64(kNothing), _mm512_test_epi64_mask(distance, distance), low, octaves);
    const __m512i spread =
        _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(some, means.spreads + page));
    const __m512i between =
        _mm512_min_epi64(_mm512_abs_epi64(_mm512_sub_epi64(log, spread)), _mm512_set1_epi64(127));
    const __m512i sum = _mm512_add_epi64(_mm512_max_epi64(log, spread),
                                         excess.of(between, _mm512_set1_epi64(0xFF)));
    _mm256_mask_storeu_epi32(distances + page, some, _mm512_cvtepi64_epi32(sum));
  }
}

/// Where sixteen granules of a page lie whose rows have so many each.
class Sixteen {
 public:
  /// Those from the `number`-th sixteen on.
  Sixteen(std::size_t number, std::size_t rows, std::size_t count)
      : at_(16 * number), row_(at_ / count), rows_(rows), count_(count) {
    const std::size_t left = rows * count - at_;
    some_ = static_cast<__mmask16>(left < 16 ? (1U << left) - 1 : 0xFFFFU);
    const __m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m128i shift = _mm_cvtsi32_si128(__builtin_ctzll(count));
    const std::size_t wanted = left < 16 ? left : 16;
    in_row_ = _mm512_srl_epi32(places, shift);
    in_count_ = _mm512_and_si512(places, _mm512_set1_epi32(static_cast<int>(count - 1)));
    row_mask_ = static_cast<__mmask16>((1U << ((wanted + count - 1) / count)) - 1);
    count_mask_ = static_cast<__mmask16>(count < 16 ? (1U << count) - 1 : 0xFFFFU);
  }

  [[nodiscard]] __mmask16 some() const { return some_; }
  [[nodiscard]] std::size_t row() const { return row_; }
  [[nodiscard]] std::size_t end_row() const {
    return row_ + static_cast<std::size_t>(__builtin_popcount(row_mask_));
  }
  [[nodiscard]] __mmask16 of_row(std::size_t row) const {
    return some_ &
           _mm512_cmpeq_epi32_mask(in_row_, _mm512_set1_epi32(static_cast<int>(row - row_)));
  }
  /// Logarithms of a page.
  [[nodiscard]] __m512i load(const std::int16_t* logs, std::size_t page) const {
    return _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(some_, logs + place(page)));
  }
  /// What its rows have besides.
  [[nodiscard]] __m512i rests(const std::int32_t* rests, std::size_t page) const {
    return _mm512_permutexvar_epi32(
        in_row_, _mm512_maskz_loadu_epi32(row_mask_, rests + page * rows_ + row_));
  }
  /// Those of which planes are read.
  [[nodiscard]] __mmask16 coded(const std::uint8_t* planes, std::size_t page) const {
    const __m128i own =
        _mm_maskz_loadu_epi8(count_mask_, planes + page * count_ + (at_ & (count_ - 1)));
    return _mm512_test_epi32_mask(_mm512_permutexvar_epi32(in_count_, _mm512_cvtepu8_epi32(own)),
                                  _mm512_set1_epi32(0xFF));
  }
  /// Energies in 16 bits: kNoLog16 of others than `some`.
  void store(std::int16_t* to, std::size_t page, __m512i energies, __mmask16 some) const {
    const __m256i bounded =
        _mm256_max_epi16(_mm512_cvtsepi32_epi16(energies), _mm256_set1_epi16(kNoLog16 + 1));
    _mm256_mask_storeu_epi16(to + place(page), some_,
                             _mm256_mask_mov_epi16(_mm256_set1_epi16(kNoLog16), some, bounded));
  }

 private:
  [[nodiscard]] std::size_t place(std::size_t page) const { return page * rows_ * count_ + at_; }

  std::size_t at_;
  std::size_t row_;
  std::size_t rows_;
  std::size_t count_;
  __mmask16 some_;
  __mmask16 row_mask_;
  __mmask16 count_mask_;
  __m512i in_row_;
  __m512i in_count_;
};

/// Sums of powers floor(2^(energies / 16 + 24)) of energies, which are 320 at most, of sixteen
/// granules.
class PowerSums {
 public:
  PowerSums() : octaves_(avx512::load(kernel_tables().wide_octaves)) {
    for (__m512i& sum : sums_) sum = _mm512_setzero_si512();
  }

  void add(__m512i energies, __mmask16 some) {
    const __m512i x = _mm512_min_epi32(energies, _mm512_set1_epi32(320));
    const __m512i mantissa = _mm512_maskz_permutexvar_epi32(some, x, octaves_);
    const __m512i octave = _mm512_srai_epi32(x, 4);
    // Sums of 2^31 and more have their lowest bits for themselves.
    const __mmask16 is_large = _mm512_mask_cmpgt_epi32_mask(some, octave, _mm512_set1_epi32(6));
    if (__builtin_expect(is_large != 0, 0)) {
      add_wide(_mm512_maskz_mov_epi32(is_large, mantissa), octave);
    }
    const __m512i power = _mm512_srlv_epi32(
        _mm512_slli_epi32(_mm512_mask_mov_epi32(mantissa, is_large, _mm512_setzero_si512()), 19),
        _mm512_sub_epi32(_mm512_set1_epi32(6), octave));
    sums_[0] = _mm512_add_epi64(sums_[0], _mm512_and_si512(power, _mm512_set1_epi64(0xFFFFFFFFLL)));
    sums_[1] = _mm512_add_epi64(sums_[1], _mm512_srli_epi64(power, 32));
  }

  [[nodiscard]] std::uint64_t of(__mmask16 some) const {
    const __m512i all = _mm512_movm_epi32(some);
    const __m512i even = _mm512_srai_epi64(_mm512_slli_epi64(all, 32), 32);
    const __m512i odd = _mm512_srai_epi64(all, 32);
    return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(
        _mm512_add_epi64(_mm512_and_si512(even, sums_[0]), _mm512_and_si512(odd, sums_[1]))));
  }

 private:
  /// Of octaves above -13.
  void add_wide(__m512i mantissa, __m512i octave) {
    const __m512i up = _mm512_add_epi32(octave, _mm512_set1_epi32(13));
    const __m512i low = _mm512_set1_epi64(0xFFFFFFFFLL);
    sums_[0] = _mm512_add_epi64(
        sums_[0], _mm512_sllv_epi64(_mm512_and_si512(mantissa, low), _mm512_and_si512(up, low)));
    sums_[1] = _mm512_add_epi64(
        sums_[1], _mm512_sllv_epi64(_mm512_srli_epi64(mantissa, 32), _mm512_srli_epi64(up, 32)));
  }

  __m512i octaves_;
  __m512i sums_[2];  // Of even granules, and of odd ones.
};

void total_keys(const GranuleTerms& terms, const Sixteen& own, std::int16_t* keys,
                GranuleTotals* totals) {
  const __m512i none = _mm512_set1_epi32(kNoLog16);
  PowerSums powers;
  for (std::size_t page = 0; page < terms.pages; ++page) {
    const __m512i logs = own.load(terms.keys, page);
    const __m512i rests = own.rests(terms.of_keys, page);
    const __mmask16 has_rest =
        _mm512_mask_cmpge_epi32_mask(own.some(), rests, _mm512_set1_epi32(kLeastOfSome));
    const __mmask16 some = _mm512_mask_cmpneq_epi32_mask(has_rest, logs, none);
    const __m512i energies = _mm512_add_epi32(logs, rests);
    powers.add(energies, some);
    own.store(keys, page, energies, some);
  }
  for (std::size_t row = own.row(); row < own.end_row(); ++row) {
    totals[row].energy += powers.of(own.of_row(row));
  }
}

void total_values(const GranuleTerms& terms, const Sixteen& own, std::int16_t* prices,
                  GranuleTotals* totals) {
  const __m512i none = _mm512_set1_epi32(kNoLog16);
  const SumExcess excess;
  PowerSums powers;
  PowerSums coherent;
  for (std::size_t page = 0; page < terms.pages; ++page) {
    const __m512i logs = own.load(terms.values, page);
    const __mmask16 some = _mm512_mask_cmpneq_epi32_mask(own.some(), logs, none);
    const __mmask16 coded = own.coded(terms.planes, page) & some;
    const __m512i value = _mm512_add_epi32(logs, own.rests(terms.of_values, page));
    const __m512i share =
        _mm512_add_epi32(own.load(terms.shares, page), own.rests(terms.of_shares, page));
    const __m512i amplitude =
        _mm512_add_epi32(share, _mm512_mask_mov_epi32(_mm512_set1_epi32(kCoherenceOfNone), coded,
                                                      _mm512_set1_epi32(kCoherenceOfCodes)));
    const __m512i distance = _mm512_min_epi32(_mm512_abs_epi32(_mm512_sub_epi32(value, amplitude)),
                                              _mm512_set1_epi32(127));
    const __m512i price = _mm512_add_epi32(_mm512_max_epi32(value, amplitude),
                                           excess.of(distance, _mm512_set1_epi32(0xFF)));
    powers.add(_mm512_mask_mov_epi32(price, coded, value), some);
    if (coded != 0) coherent.add(share, coded);
    own.store(prices, page, price, some);
  }
  for (std::size_t row = own.row(); row < own.end_row(); ++row) {
    totals[row].energy += powers.of(own.of_row(row));
    totals[row].coherent += coherent.of(own.of_row(row));
  }
}

void total(const GranuleTerms& terms, std::int16_t* keys, std::int16_t* prices,
           GranuleTotals* totals) {
  for (std::size_t i = 0; 16 * i < terms.rows * terms.key_count; ++i) {
    total_keys(terms, Sixteen(i, terms.rows, terms.key_count), keys, totals);
  }
  for (std::size_t i = 0; 16 * i < terms.rows * terms.value_count; ++i) {
    total_values(terms, Sixteen(i, terms.rows, terms.value_count), prices, totals);
  }
}

}  // namespace

void avx512::set_total_kernels(PageKernels* kernels) {
  kernels->output_products = output_products;
  kernels->mean_distances = mean_distances;
  kernels->total = total;
}

}  // namespace nearkv

#endif

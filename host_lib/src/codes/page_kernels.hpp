// The inner loops of attention and search by codes, over one page each. Section numbers refer to
// emulator/model/ARITHMETIC.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codes/energies.hpp"
#include "nkv_abi.h"

namespace nearkv {

inline constexpr int kCodeLogitBits = 7;  ///< Fraction bits of logits from codes.
inline constexpr std::int64_t kLoudMean = std::int64_t{1} << 29;

/// s^2 at least.
inline constexpr std::int32_t kLeastSpread = 3410;
inline constexpr int kVarianceUnit = 241;  ///< 2^14 / ln^2 2, in sixteenths of octaves.

/// A mean's sum of products with a row: upper * 2^12 + lower.
struct MeanSums {
  std::int32_t upper;
  std::int32_t lower;
};

/// Logits of means (12.2), by page and row.
struct MeanLogits {
  const MeanSums* sums;
  const std::int32_t* powers;  ///< By which half a sum, times `factor`, is to be moved.
  std::int32_t factor;         ///< C
  std::size_t count;
  std::int32_t* octaves;    ///< I
  std::int16_t* fractions;  ///< f
};

/// A page of which a row is scored by plane 0.
struct ScoredPage {
  const std::uint8_t* factors;  ///< Four bits a token.
  std::uint64_t visible;
};

/// A row that is scored on a page. Tables are by factor, 16 entries.
struct ScoredRow {
  const std::int16_t* multipliers;  ///< m; of factor 0 as if it were one.
  const std::int32_t* noise;        ///< Terms of N (13.1).
  std::int16_t fraction;            ///< f
};

/// Scores of a page's visible tokens in a row.
struct ScoreSums {
  std::int32_t sum = 0;
  std::int32_t noise = 0;
  std::uint32_t lower_squares = 0;  ///< The sum of squares is that of both, the upper one
  std::uint32_t upper_squares = 0;  ///< times 2^16.
};

/// By whose 16 upper bits a product of a sum and m may be loud: those of -kQuietProduct to
/// kQuietProduct - 1 are not.
inline constexpr int kQuietProduct = (1 << 10) - 1;

/// A page whose scores are drawn to its mean (13.1).
struct DrawnPage {
  const std::uint8_t* factors;   ///< Four bits a token.
  std::uint64_t visible;         ///< Tokens that take part,
  std::uint64_t rest;            ///< those of them that do not stand alone,
  std::uint64_t exact;           ///< and those that are not drawn.
  const std::uint64_t* refined;  ///< Tokens by planes of K, from 2 to KEY_CODE_PLANES.
};

/// A row whose scores are drawn: H and W by planes less one, and then by factor, 16 entries each.
/// Those of more planes than one are looked at only for tokens that have them.
struct DrawnRow {
  const std::int16_t* half[NKV_KEY_CODE_PLANES];
  const std::int16_t* part[NKV_KEY_CODE_PLANES];
  std::int16_t mean;  ///< mu
};

/// Weights of a page in a row.
struct PageWeight {
  std::int32_t top;    ///< n_p
  std::uint32_t rest;  ///< Z
};

/// Means of pages, or values of tokens, and what they weigh in rows: weights and shifts are
/// [count][rows].
template <typename T>
struct Weighted {
  const T* const* values;
  const std::int32_t* weights;  ///< Below 2^18.
  const std::int32_t* shifts;   ///< -16 to 42 of means, 0 to 42 of values.
  std::size_t count;            ///< At most kPagesOfMeans.
  std::size_t rows;
  std::size_t dim;
};
using WeightedMeans = Weighted<std::int8_t>;
using WeightedValues = Weighted<std::int32_t>;
inline constexpr std::size_t kPagesOfMeans = 32;

/// Tokens of a page of whose rows some planes are read.
struct PlaneRows {
  const std::uint8_t* const* planes;  ///< [PAGE_TOKENS][dim / 8] each.
  const std::uint64_t* tokens;        ///< By how many planes; those of no number have none.
  std::size_t dim;
};

/// Weights w of a query's rows under a sign set.
struct WeightRows {
  const std::int16_t* weights;  ///< [rows][padded]
  const std::int32_t* totals;   ///< Their sums.
  std::size_t rows;
  std::size_t padded;
};

/// A page of whose tokens errors are looked at.
struct ErrorPage {
  const std::uint8_t* key_factors;  ///< Four bits a token,
  const std::uint8_t* value_factors;
  std::uint64_t key_rows;        ///< Tokens whose key row was read.
  const std::uint64_t* refined;  ///< Tokens by planes of K, from 2 to KEY_CODE_PLANES.
};

/// A row of errors: KE and VE by planes less one, and then by factor, 16 entries each. Those of
/// more planes than one are looked at only on pages that have any.
struct ErrorRow {
  const std::int16_t* drawn;
  const std::int16_t* key_effects[NKV_KEY_CODE_PLANES];
  const std::int16_t* value_effects[NKV_KEY_CODE_PLANES];
};

/// |r|^2 and its half, with what planes leave of it, less rho and its half: by planes, which are
/// never one, and then by factor.
struct ValueLengths {
  std::int16_t energies[NKV_VALUE_CODE_PLANES + 1][16];
  std::int16_t amplitudes[NKV_VALUE_CODE_PLANES + 1][16];
};

/// Granules whose errors are summed.
struct GranuleTokens {
  std::uint64_t tokens;  ///< That are counted.
  std::size_t granule;   ///< Tokens of one.
};

/// What tokens' errors have besides in a row: against what a row read is worth.
struct KeyRest {
  const std::int16_t* before;  ///< GE by factor, of which factor 0 has nothing,
  const std::int16_t* after;   ///< and what it is going to be.
  std::int16_t rest;
};
struct PriceRest {
  std::int16_t energy;
  std::int16_t amplitude;
};

/// How many planes granules are worth, in sixteenths of octaves of what a burst of one is worth.
struct PlaneLevels {
  int most;                ///< Planes.
  std::int16_t least[5];   ///< The error before there were planes from which on so many are read,
  std::int16_t falls[5];   ///< and by how much less it is by so many.
  std::int16_t row_worth;  ///< What is left from which on rows may be worth reading.
};

/// Granules of a page, as bits.
struct ChosenGranules {
  std::uint64_t refined;  ///< Those that are worth more planes than they have,
  std::uint64_t rowwise;  ///< and those of which rows may be worth reading.
};

/// A page's values on the whole.
struct ValueSums {
  std::int64_t squares;  ///< Of the mean.
  std::int64_t lengths;  ///< Of tokens by factor.
};

/// What a row's refined sums are multiplied by.
struct RefinedRow {
  /// m (12.3) by planes and factor, that of factor 0 as if it were 0.
  const std::int16_t* multipliers[NKV_KEY_CODE_PLANES + 1];
  std::int16_t fraction;
};

/// Means of pages before a row's output o, none more than kShortDistance octaves from it.
struct DistantMeans {
  const std::int64_t* products;  ///< Of means and output,
  const std::int64_t* squares;   ///< and of means.
  const std::int32_t* powers;    ///< 2^powers is a unit of a mean.
  const std::int32_t* spreads;   ///< |r|^2 of the mean token, or very small.
  std::size_t pages;
  std::int64_t output_squares;
  std::int32_t output_power;
};
inline constexpr int kShortDistance = 11;  ///< Squares fit 64 bits.

/// Granules of pages that lie one behind the other, of rows: kNoLog16 where there is nothing.
struct GranuleTerms {
  const std::int16_t* keys;       ///< K', [pages][rows][key_count],
  const std::int16_t* values;     ///< V', [pages][rows][value_count],
  const std::int16_t* shares;     ///< and a'.
  const std::uint8_t* planes;     ///< Of V, [pages][value_count].
  const std::int32_t* of_keys;    ///< c + d^2, [pages][rows], or very small.
  const std::int32_t* of_values;  ///< c + rho, and what a has besides.
  const std::int32_t* of_shares;
  std::size_t pages;
  std::size_t rows;
  std::size_t key_count;
  std::size_t value_count;
};

/// Errors of granules of pages that lie one behind the other, of rows of which some are looked at.
struct GranuleErrors {
  const std::int16_t* errors;  ///< [pages][rows][count], kNoLog16 where there is nothing.
  std::size_t pages;
  std::size_t rows;
  std::size_t count;
  const std::uint32_t* some;  ///< Rows.
  std::size_t some_count;
  std::int16_t cost;  ///< What a granule's plane takes, as a logarithm.
};

/// Granules by the error that they hold for each burst of a plane, in bins of a quarter of an
/// octave. Behind them those that hold nothing.
inline constexpr int kLeastErrorBin = -96;
inline constexpr int kMostErrorBin = 80;
inline constexpr std::size_t kErrorBins = kMostErrorBin - kLeastErrorBin + 1;
/// Granules beside each other are counted apart: most of them are of one bin, and no count waits
/// for the one before it.
inline constexpr std::size_t kBinSets = 8;
using ErrorBins = std::uint32_t[kBinSets][kErrorBins + 1];

/// Powers of K and V at 24 fraction bits, and of a of granules with planes.
struct GranuleTotals {
  std::uint64_t energy;
  std::uint64_t coherent;
};

/// Sums over a plane look up what five channels add, by their bits, in tables of 32 entries. Each
/// 16 channels have three of them, of channels 0 to 4, 5 to 9 and 10 to 14; behind every five times
/// three, and the last ones, follows one of the channels 15 that are left, the last in bit 0.
inline constexpr std::size_t kTableEntries = 32;
inline constexpr std::size_t kTableBits = 5;
[[gnu::always_inline]] constexpr std::size_t plane_tables(std::size_t dim) {
  return dim / 16 * 3 + (dim / 16 + kTableBits - 1) / kTableBits;
}

inline constexpr int kWeightBits = 14;  ///< That the sum of |w| takes, about.

/// What makes weights w (12.1) of a row's T(q^), beside them.
struct RowWeights {
  int power;            ///< a
  std::int32_t length;  ///< Sum of |w|,
  std::int32_t total;   ///< and of w.
};

/// All functions of one kind of processor. Arrays of numbers a token have PAGE_TOKENS entries and
/// are aligned for vectors.
struct PageKernels {
  /// Four bits a token to a byte a token.
  void (*unpack_factors)(const std::uint8_t* packed, std::uint8_t* factors);

  /// Sums of a mean's squares, and over some tokens of lengths by factor, 16 numbers below 2^30.
  ValueSums (*sum_values)(const std::int8_t* mean, std::size_t dim, const std::uint8_t* factors,
                          std::uint64_t tokens, const std::int32_t* lengths);

  /// Hadamard transform of a power of two, 16 or more, of numbers whose sums fit 32 bits.
  void (*hadamard)(std::int32_t* values, std::size_t size);

  /// Sums over one plane, [PAGE_TOKENS][dim / 8], of all rows: sums[rows][PAGE_TOKENS]. `tables`,
  /// aligned for vectors: [rows][plane_tables(dim)][kTableEntries].
  void (*plane_sums)(const std::uint8_t* plane, std::size_t dim, const std::int16_t* tables,
                     std::size_t rows, std::int16_t* sums);

  /// Sums of products of a mean with rows of numbers upper * 2^12 + lower: upper ones, then lower
  /// ones, of each row `padded` numbers, zero behind `dim`.
  void (*mean_products)(const std::int8_t* mean, const std::int16_t* halves, std::size_t dim,
                        std::size_t padded, std::size_t rows, MeanSums* sums);

  /// Whether one of the logits is loud.
  bool (*mean_logits)(const MeanLogits& means);

  /// mu and tau (13.1) of rows of pages whose tokens are all visible.
  void (*spreads)(const ScoreSums* sums, std::size_t count, std::int16_t* means,
                  std::int16_t* logs);

  /// w of a row's T(q^), of a short block.
  RowWeights (*round_weights)(const std::int32_t* exact, std::size_t dim, std::int16_t* weights);

  /// Tables of sums over a plane of a row's weights.
  void (*tabulate)(const std::int16_t* weights, std::size_t dim, std::int16_t* tables);

  /// R (12.3) = round(sums * m[factor] / 2^12) + fraction of rows, [rows][PAGE_TOKENS]. Where it
  /// gives true, a residual is near 2^14 in some row, whose scores and sums do not hold.
  bool (*score)(const std::int16_t* sums, const ScoredPage& page, const ScoredRow* rows,
                std::size_t count, std::int16_t* above, ScoreSums* totals);

  /// numbers[t] = table[factors[t]] for some tokens, those of factor 0 apart; others stay.
  void (*look_up_some)(const std::uint8_t* factors, const std::int16_t* table, std::uint64_t tokens,
                       std::int16_t* numbers);

  /// P (13.1) of scores R of rows, [rows][PAGE_TOKENS] both, and the page's weights (13.2).
  void (*weigh)(const std::int16_t* above, const DrawnPage& page, const DrawnRow* rows,
                std::size_t count, std::int16_t* drawn, PageWeight* weights);

  /// u (13.2) of scores P against a page's n_p and of F, by token. Gives the tokens that have any.
  std::uint64_t (*coded_shares)(const std::int16_t* drawn, std::int32_t top,
                                const std::int16_t* factors, std::uint16_t* shares);

  /// K' (13.4) of rows, [rows][granules]: kNoLog16 of granules without any of the tokens.
  void (*key_logs)(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
                   const GranuleTokens& granules, std::int16_t* logs);

  /// V' and a' of rows, [rows][granules] each; `valued` are tokens by planes of V, from 2 to
  /// VALUE_CODE_PLANES.
  void (*value_logs)(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
                     const GranuleTokens& granules, const ValueLengths& lengths,
                     const std::uint64_t* valued, std::int16_t* values, std::int16_t* shares);

  /// Bins (14.1) of those of some tokens' scores that are at least `least`, in any order: as many
  /// as it gives, none above 4095. R of 0 lies `below` the largest logit, whose lower 16 bits
  /// count.
  std::size_t (*bins)(const std::int16_t* scores, std::uint64_t tokens, std::int16_t least,
                      std::uint16_t below, std::uint16_t* bins);

  /// The largest of scores of some tokens, of which there are any.
  std::int16_t (*largest)(const std::int16_t* scores, std::uint64_t tokens);

  /// acc[row][c] += the sum over means of floor(weight * mean[c] / 2^shift).
  void (*add_means)(const WeightedMeans& means, std::int64_t* acc);

  /// The same of values, which are below 2^24.
  void (*add_values)(const WeightedValues& values, std::int64_t* acc);

  /// acc[c] += floor(numbers[c] * mantissa * 2^power), at most 2^most of either sign; a number
  /// changes its own sign where minus[c] is -1, not 0. `mantissa` is below 2^12, `power` -63 to
  /// `most`, which is at most 62.
  void (*add_signed)(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                     std::int32_t mantissa, int power, int most, std::int64_t* acc);

  /// A row of DELTA4 as bf16, zero where it is an exception's.
  void (*expand_delta4)(const std::uint8_t* row, const std::uint8_t* exponents, std::size_t dim,
                        std::uint16_t* expanded);

  /// value[c] of a row of bf16 (1.3): 24 bits and a sign, of a list with that largest exponent.
  void (*align_bf16)(const std::uint16_t* row, std::size_t dim, int exponent, std::int32_t* value);

  /// Y (13.2), [rows][dim]: sums over tokens, of two planes or three, of shares[row][t], below
  /// 2^15, times what those say of t.
  void (*coded_sums)(const PlaneRows& values, const std::uint16_t* shares, std::size_t rows,
                     std::int32_t* sums);

  /// Sums of products of means with an output, zero behind `dim`.
  void (*output_products)(const std::int8_t* const* means, std::size_t pages,
                          const std::int16_t* output, std::size_t dim, std::int64_t* products);

  /// d^2 (13.3) of pages in a row.
  void (*mean_distances)(const DistantMeans& means, std::int32_t* distances);

  /// x (12.3) of tokens of two planes to four: sums[rows][PAGE_TOKENS], of other tokens as they
  /// were.
  void (*refined_sums)(const PlaneRows& keys, const WeightRows& weights, std::int32_t* sums);

  /// R (12.3) = round(sums * m[factor] / 2^12) + fraction of tokens of two planes to four, where
  /// products fit 31 bits: above[rows][PAGE_TOKENS]; those of other tokens stay. `factors` are four
  /// bits a token.
  void (*rescore)(const std::int32_t* sums, const std::uint8_t* factors,
                  const std::uint64_t* tokens, const RefinedRow* refined, std::size_t rows,
                  std::int16_t* above);

  /// errors[t] = the largest of rows' (drawn[t] >> 2) + KE + rest + GE after less GE before, in 16
  /// bits.
  void (*key_errors)(const ErrorPage& page, const ErrorRow* rows, const KeyRest* rests,
                     std::size_t count, std::int16_t* errors);

  /// The same of prices, of so many planes: (drawn >> 2) + VE + |r|^2 + rest, and with it as a sum
  /// of powers (drawn >> 3) + half of |r|^2 + rest.
  void (*prices)(const ErrorPage& page, const ErrorRow* rows, const PriceRest* rests,
                 std::size_t count, const ValueLengths& lengths, int planes, std::int16_t* errors);

  /// Planes (13.6) of the granules of a page, whose errors hold no less than `worth` where they are
  /// chosen; others keep their own. As many errors may be read as a page has tokens.
  ChosenGranules (*choose_planes)(const std::int16_t* errors, const std::uint8_t* own,
                                  std::size_t count, const PlaneLevels& levels, std::int16_t worth,
                                  std::uint8_t* planes);

  /// The largest of rows' errors: of granules, `stride` apart by page, and of pages. Counts
  /// granules, each in one of the sets.
  void (*worst)(const GranuleErrors& errors, std::int16_t* of_granules, std::size_t stride,
                std::int16_t* of_pages, ErrorBins& bins);

  /// Which of a page's tokens have at least that.
  std::uint64_t (*at_least)(const std::int16_t* numbers, std::int16_t least);

  /// K and prices of granules (13.4), laid out as terms are, in 16 bits. Adds to rows' totals.
  void (*total)(const GranuleTerms& terms, std::int16_t* keys, std::int16_t* prices,
                GranuleTotals* totals);
};

/// Tables of the kernels, laid out for vectors.
struct KernelTables {
  alignas(64) std::uint16_t mantissas[128];    ///< E
  alignas(64) std::int16_t fractions[32];      ///< 2^14 * 2^(-i/16), twice, from G.
  alignas(64) std::int16_t first_steps[32];    ///< Steps surely reached, by the upper 6 bits of 16.
  alignas(64) std::int32_t wide_octaves[16];   ///< G
  alignas(64) std::int8_t sum_excess[128];     ///< A, 0 from 96 on.
  alignas(64) std::uint16_t before_steps[32];  ///< The last of 16 bits before a step.
};
[[nodiscard]] const KernelTables& kernel_tables();

/// Those that suit this processor.
[[nodiscard]] const PageKernels& page_kernels();

/// Those for AVX-512 with VBMI2 and VNNI; null where the processor lacks them.
[[nodiscard]] const PageKernels* avx512_page_kernels();

/// Those that suit any.
[[nodiscard]] const PageKernels& portable_page_kernels();

}  // namespace nearkv

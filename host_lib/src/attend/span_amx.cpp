// Compiled for AMX's bf16 tiles and AVX-512 whatever the rest of the library is compiled for, and
// entered only where the processor has them. Includes nothing whose inline functions other files
// than span_avx512.cpp might share.
#include "attend/span.hpp"

#if defined(__AMX_BF16__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attend/products_bf16.hpp"
#include "attend/span_parts_bf16.hpp"

namespace nearkv {
namespace {

using namespace bf16;  // NOLINT(google-build-using-namespace): this file's own other half.

// A tile has up to 16 rows of 64 bytes. A product adds to C[m][n] the sums over pairs of A[m][2k] *
// B[k][2n] + A[m][2k + 1] * B[k][2n + 1]. What is in which tile:
//   0     keys: 16 tokens, or pairs of channels by token
//   1     values: pairs of tokens by channel
//   2     query rows, or pairs of their channels by row
//   3, 7  scores
//   4, 5  sums of values by high and low weights
//   6     weights of a step's tokens, high and low ones by turns

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kPairBytes = 4;
constexpr std::size_t kTileBytes = 64;
constexpr std::size_t kStep = 2 * kTileRows;  ///< Channels or tokens that a product sums over.
constexpr std::size_t kRowsOfValues = kTileRows / 2;

/// Below it a tile is mostly empty, and memory is waited for anyway.
constexpr std::size_t kLeastRows = 3;

/// What LDTILECFG reads.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t first_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(std::size_t tile, std::size_t row_count, std::size_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(row_count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};

/// Rows whose values are summed at once.
std::size_t rows_at_once(std::size_t rows) { return rows < kRowsOfValues ? rows : kRowsOfValues; }

/// Tokens that a product of values sums over.
std::size_t value_step(std::size_t tokens) { return tokens % kStep == 0 ? kStep : kTileRows; }

/// Rows of queries, filled up so that four of them make 16 bytes.
std::size_t filled_rows(std::size_t rows) { return (rows + 3) / 4 * 4; }

/// The intrinsics do not say that tiles are loaded from memory.
void barrier() { __asm__ volatile("" ::: "memory"); }

/// Shapes the thread's tiles for a span, unless they are shaped so.
void shape_tiles(BlockLayout layout, const SpanQuery& query, const Span& span, SpanScope* scope) {
  const std::size_t step = value_step(span.count);
  const bool is_rows = layout == BlockLayout::kRows;
  const std::uint64_t wanted = std::uint64_t{query.count} << 8 | step << 1 | (is_rows ? 1U : 0U);
  if (scope->tiles == wanted) return;
  TileShapes shapes;
  const std::size_t sums = 2 * rows_at_once(query.count);
  const std::size_t of_query = is_rows ? kTileRows : query.count;
  const std::size_t of_query_bytes = is_rows ? kPairBytes * filled_rows(query.count) : kTileBytes;
  shapes.set(0, kTileRows, kTileBytes);
  shapes.set(1, step / 2, kTileBytes);
  for (const std::size_t tile : {2U, 3U, 7U}) shapes.set(tile, of_query, of_query_bytes);
  for (const std::size_t tile : {4U, 5U}) shapes.set(tile, sums, kTileBytes);
  shapes.set(6, sums, step * sizeof(Bf16));
  barrier();
  _tile_loadconfig(&shapes);
  scope->tiles = wanted;
  scope->release = [] { _tile_release(); };
}

/// out[i] = the lanes i of four vectors.
inline void gather_lanes(const __m512 (&in)[4], __m512 (&out)[4]) {
  const __m512 a = _mm512_shuffle_f32x4(in[0], in[1], 0x44);
  const __m512 b = _mm512_shuffle_f32x4(in[2], in[3], 0x44);
  const __m512 c = _mm512_shuffle_f32x4(in[0], in[1], 0xEE);
  const __m512 d = _mm512_shuffle_f32x4(in[2], in[3], 0xEE);
  out[0] = _mm512_shuffle_f32x4(a, b, 0x88);
  out[1] = _mm512_shuffle_f32x4(a, b, 0xDD);
  out[2] = _mm512_shuffle_f32x4(c, d, 0x88);
  out[3] = _mm512_shuffle_f32x4(c, d, 0xDD);
}

/// Four rows of four numbers as their columns.
inline __m512 turn(__m512 four) {
  return _mm512_permutexvar_ps(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), four);
}

/// Pairs of a step's channels, by pair and then by row: [kTileRows][filled rows].
void pack_query(const Bf16* rows, std::size_t dim, std::size_t count, float* packed) {
  const std::size_t filled = filled_rows(count);
  for (std::size_t row = 0; row < filled; row += 4) {
    __m512 pairs[4];
    for (std::size_t i = 0; i < 4; ++i) {
      pairs[i] = row + i < count ? _mm512_loadu_ps(rows + (row + i) * dim) : _mm512_setzero_ps();
    }
    __m512 lanes[4];
    gather_lanes(pairs, lanes);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m512 by_pair = turn(lanes[i]);
      float* const to = packed + 4 * i * filled + row;
      _mm_storeu_ps(to, _mm512_castps512_ps128(by_pair));
      _mm_storeu_ps(to + filled, _mm512_extractf32x4_ps(by_pair, 1));
      _mm_storeu_ps(to + 2 * filled, _mm512_extractf32x4_ps(by_pair, 2));
      _mm_storeu_ps(to + 3 * filled, _mm512_extractf32x4_ps(by_pair, 3));
    }
  }
}

/// Scores of 16 tokens, [kTileRows][filled rows], by row.
void store_scores(const float* by_token, std::size_t count, float* scores) {
  const std::size_t filled = filled_rows(count);
  for (std::size_t row = 0; row < filled; row += 4) {
    __m512 tokens[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const float* const from = by_token + 4 * i * filled + row;
      __m512 four = _mm512_castps128_ps512(_mm_loadu_ps(from));
      four = _mm512_insertf32x4(four, _mm_loadu_ps(from + filled), 1);
      four = _mm512_insertf32x4(four, _mm_loadu_ps(from + 2 * filled), 2);
      tokens[i] = turn(_mm512_insertf32x4(four, _mm_loadu_ps(from + 3 * filled), 3));
    }
    __m512 of_rows[4];
    gather_lanes(tokens, of_rows);
    for (std::size_t i = 0; i < 4 && row + i < count; ++i) {
      _mm512_store_ps(scores + (row + i) * kSpanTokens, of_rows[i]);
    }
  }
}

/// Two vectors' elements by turns, as the rows of one tile and of another.
inline void interleave(__m512i even, __m512i odd, Bf16* low, Bf16* high) {
  _mm512_store_si512(low, _mm512_unpacklo_epi16(even, odd));
  _mm512_store_si512(high, _mm512_unpackhi_epi16(even, odd));
}

/// Two tiles' rows.
struct TwoTiles {
  alignas(64) Bf16 low[kTileRows][kStep];
  alignas(64) Bf16 high[kTileRows][kStep];
};

void score_rows(const Part& keys, const Bf16* query, std::size_t rows, std::size_t dim,
                std::size_t count, Ahead* ahead, float* scores) {
  alignas(64) float packed[NKV_MAX_HEAD_DIM / 2 * kTileRows];
  alignas(64) float by_token[kTileRows * kTileRows];
  const std::size_t row_bytes = kPairBytes * filled_rows(rows);
  const std::size_t packed_step = kTileRows * filled_rows(rows);
  for (std::size_t c = 0; c < dim; c += kStep) {
    pack_query(query + c, dim, rows, packed + c / kStep * packed_step);
  }
  barrier();
  ahead->spread(count / kTileRows * (dim / kStep));
  for (std::size_t t = 0; t < count; t += kTileRows) {
    _tile_zero(3);
    for (std::size_t c = 0; c < dim; c += kStep) {
      const Bf16* const key = keys.here + t * dim + c;
      ahead->step();
      _tile_loadd(0, key, dim * sizeof(Bf16));
      _tile_loadd(2, packed + c / kStep * packed_step, row_bytes);
      _tile_dpbf16ps(3, 0, 2);
    }
    _tile_stored(3, by_token, row_bytes);
    store_scores(by_token, rows, scores + t);
  }
}

void score_channels(const Part& keys, const Bf16* query, std::size_t rows, std::size_t dim,
                    std::size_t count, Ahead* ahead, float* scores) {
  TwoTiles pairs;
  ahead->spread((count + kStep - 1) / kStep * (dim / kStep) * 2);
  alignas(64) float sums[2][kTileRows * kTileRows];
  for (std::size_t t = 0; t < count; t += kStep) {
    const bool is_half = count - t < kStep;
    const __mmask32 lanes = is_half ? 0xFFFFU : 0xFFFFFFFFU;
    _tile_zero(3);
    _tile_zero(7);
    for (std::size_t c = 0; c < dim; c += kStep) {
      const Bf16* const key = keys.here + c * keys.stride + t;
      ahead->step();
      for (std::size_t pair = 0; pair < kTileRows; ++pair) {
        const Bf16* const even = key + 2 * pair * keys.stride;
        interleave(_mm512_maskz_loadu_epi16(lanes, even),
                   _mm512_maskz_loadu_epi16(lanes, even + keys.stride), pairs.low[pair],
                   pairs.high[pair]);
      }
      barrier();
      ahead->step();
      _tile_loadd(2, query + c, dim * sizeof(Bf16));
      _tile_loadd(0, pairs.low, kTileBytes);
      _tile_dpbf16ps(3, 2, 0);
      _tile_loadd(0, pairs.high, kTileBytes);
      _tile_dpbf16ps(7, 2, 0);
    }
    _tile_stored(3, sums[0], kTileBytes);
    _tile_stored(7, sums[1], kTileBytes);
    for (std::size_t row = 0; row < rows; ++row) {
      const Ordered tokens = ordered(_mm512_load_ps(sums[0] + row * kTileRows),
                                     _mm512_load_ps(sums[1] + row * kTileRows));
      float* const to = scores + row * kSpanTokens + t;
      _mm512_store_ps(to, tokens.first);
      if (!is_half) _mm512_store_ps(to + kLanes, tokens.second);
    }
  }
}

void score_tiles(const Part& keys, const Bf16* query, std::size_t dim, std::size_t count,
                 Ahead* ahead, float* scores) {
  ahead->spread(count / kTileRows * (dim / kStep));
  for (std::size_t t = 0; t < count; t += kTileRows) {
    _tile_zero(3);
    for (std::size_t c = 0; c < dim; c += kStep) {
      const Bf16* const key = keys.here + t / kLanes * keys.stride + c * kLanes;
      ahead->step();
      _tile_loadd(2, query + c, dim * sizeof(Bf16));
      _tile_loadd(0, key, kTileBytes);
      _tile_dpbf16ps(3, 2, 0);
    }
    _tile_stored(3, scores + t, kSpanTokens * sizeof(float));
  }
}

template <BlockLayout kLayout>
void score_loaded(const SpanShape& shape, const SpanQuery& query, const Span& span, Ahead* ahead,
                  float* scores) {
  const auto* const rows = reinterpret_cast<const Bf16*>(query.rows);
  const Part keys = keys_of<kLayout>(shape, span);
  if constexpr (kLayout == BlockLayout::kRows) {
    score_rows(keys, rows, query.count, shape.key_dim, span.count, ahead, scores);
  } else if constexpr (kLayout == BlockLayout::kChannelMajor) {
    score_channels(keys, rows, query.count, shape.key_dim, span.count, ahead, scores);
  } else {
    score_tiles(keys, rows, shape.key_dim, span.count, ahead, scores);
  }
}

/// Adds what 32 channels of kRowsOfValues rows at most sum up to, from `row` on.
template <BlockLayout kLayout>
void add_channels(const Part& values, const Weights& weights, std::size_t row, std::size_t channel,
                  std::size_t tokens, Ahead* ahead) {
  TwoTiles pairs;
  const std::size_t step = value_step(tokens);
  _tile_zero(4);
  _tile_zero(5);
  for (std::size_t t = 0; t < tokens; t += step) {
    const Bf16* low = pairs.low[0];
    const Bf16* high = pairs.high[0];
    if constexpr (kLayout == BlockLayout::kTiles) {
      low = values.here + channel / kLanes * values.stride + t * kLanes;
      high = low + values.stride;
    } else {
      const Bf16* const value = values.here + t * values.stride + channel;
      for (std::size_t pair = 0; pair < step / 2; ++pair) {
        const Bf16* const even = value + 2 * pair * values.stride;
        interleave(load(even), load(even + values.stride), pairs.low[pair], pairs.high[pair]);
      }
      barrier();
    }
    ahead->step();
    _tile_loadd(6, weights.high(row) + t, kSpanTokens * sizeof(Bf16));
    _tile_loadd(1, low, kTileBytes);
    _tile_dpbf16ps(4, 6, 1);
    ahead->step();
    _tile_loadd(1, high, kTileBytes);
    _tile_dpbf16ps(5, 6, 1);
  }
}

template <BlockLayout kLayout>
void add_loaded(const SpanShape& shape, const Part& values, const Weights& weights,
                const SpanQuery& query, const Span& span, Ahead* ahead, float* sums) {
  alignas(64) float products[2][kRowsOfValues][2][kTileRows];  // By tile, row, high and low.
  const std::size_t dim = shape.value_dim;
  ahead->take(ahead->left());
  ahead->spread((query.count + kRowsOfValues - 1) / kRowsOfValues * (dim / kStep) * 2 *
                (span.count / value_step(span.count)));
  for (std::size_t row = 0; row < query.count; row += kRowsOfValues) {
    const std::size_t left = query.count - row;
    for (std::size_t channel = 0; channel < dim; channel += kStep) {
      add_channels<kLayout>(values, weights, row, channel, span.count, ahead);
      _tile_stored(4, products[0], kTileBytes);
      _tile_stored(5, products[1], kTileBytes);
      for (std::size_t r = 0; r < left && r < kRowsOfValues; ++r) {
        float* const to = sums + (row + r) * dim + channel;
        for (std::size_t i = 0; i < 2; ++i) {
          const __m512 sum =
              _mm512_add_ps(_mm512_load_ps(products[i][r][0]), _mm512_load_ps(products[i][r][1]));
          _mm512_storeu_ps(to + i * kLanes, _mm512_add_ps(_mm512_loadu_ps(to + i * kLanes), sum));
        }
      }
    }
  }
}

template <BlockLayout kLayout>
void attend_span(const SpanShape& shape, const SpanQuery& query, const Span& span, const Span* next,
                 const RowSums& sums, SpanScope* scope) {
  if (query.count < kLeastRows) {
    return attend_span_avx512(shape)(shape, query, span, next, sums, scope);
  }
  shape_tiles(kLayout, query, span, scope);
  const AheadPlan plan = {Level::kFirst, 2, query.count, 3};
  attend_by<kLayout>(score_loaded<kLayout>, add_loaded<kLayout>, plan, shape, query, span, next,
                     sums);
}

void score_span(const SpanShape& shape, const SpanQuery& query, const Span& span, const Span* next,
                float* scores, SpanScope* scope) {
  if (query.count < kLeastRows) {
    return score_span_avx512(shape)(shape, query, span, next, scores, scope);
  }
  shape_tiles(BlockLayout::kRows, query, span, scope);
  score_by(score_loaded<BlockLayout::kRows>, Level::kFirst, shape, query, span, next, scores);
}

/// Whether the processor has AMX and the kernel lets this process use it, which it is asked once.
bool is_granted() {
  static const bool granted = [] {
    constexpr unsigned kBf16 = 1U << 22;
    constexpr unsigned kTile = 1U << 24;
    constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;     // XFEATURE_XTILEDATA
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    return (d & kBf16) != 0 && (d & kTile) != 0 &&
           syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
}

}  // namespace

ScoreSpan score_span_amx(const SpanShape& shape) {
  return score_span_avx512(shape) != nullptr && is_granted() ? score_span : nullptr;
}

AttendSpan attend_span_amx(const SpanShape& shape) {
  if (attend_span_avx512(shape) == nullptr || !is_granted()) return nullptr;
  return of_layout(shape.layout, attend_span<BlockLayout::kRows>,
                   attend_span<BlockLayout::kChannelMajor>, attend_span<BlockLayout::kTiles>);
}

}  // namespace nearkv

#else

namespace nearkv {

ScoreSpan score_span_amx(const SpanShape& /*shape*/) { return nullptr; }
AttendSpan attend_span_amx(const SpanShape& /*shape*/) { return nullptr; }

}  // namespace nearkv

#endif

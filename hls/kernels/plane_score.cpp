#include "kernels/plane_score.hpp"

#include "kernels/planes.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

struct PageWeights {
  PlaneWeight of[kRows][kMaxChannels];
};

/// What takes the sum over set bits of a row to its stored midpoint.
struct RowPlace {
  std::int64_t offset;  ///< K + (2^(7−L) − 128)·Σw − reference
  int shift;
};

/// X = max(0, bits(1024 · max(W, 1)) − 15) (5.1).
int midpoint_shift(std::int64_t weight_sum) {
  const ap_uint<40> scaled = 1024 * largest_of<std::int64_t>(weight_sum, 1);
  return largest_of(bit_width(scaled) - 15, 0);
}

void fold_pages(stream<Burst>& digests, const QueryInteger query[kRows][kMaxChannels],
                const std::int16_t* steps, int page_count, int channels, int key_exponent,
                int planes, stream<PageWeights>& weights, stream<PerRow<RowPlace>>& places,
                Burst* scales) {
  std::int64_t references[kRows];
  int shifts[kRows];
#pragma HLS array_partition variable = references complete
#pragma HLS array_partition variable = shifts complete
fold_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    PageWeights of_page;
    PerRow<FoldSums> sums;
    fold_page(digests, query, channels, steps[page], key_exponent, of_page.of, &sums);
    PerRow<RowPlace> place;
  place_rows:
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      const FoldSums& of_row = sums.row[row];
      if (page == 0) {
        references[row] = of_row.constant;
        shifts[row] = midpoint_shift(of_row.weight_sum);
      }
      const std::int64_t cells = ((1 << (7 - planes)) - 128) * of_row.signed_sum;
      place.row[row] = RowPlace{of_row.constant + cells - references[row], shifts[row]};
    }
    weights.write(of_page);
    places.write(place);
  }
  Burst of_references = 0;
  Burst of_shifts = 0;
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    set_part<64>(of_references, row, ap_uint<64>(references[row]));
    set_part<64>(of_shifts, row, ap_uint<64>(shifts[row]));
  }
  scales[0] = of_references;
  scales[1] = of_shifts;
}

using Partial = ap_int<24>;  // Horner's sum of the planes so far.

struct QuadSums {
  Partial of[kRows][kQuadTokens];
};

/// Sums of weights over set bits, plane upon plane; a burst of 128 channels per cycle.
void sum_planes(stream<Burst>& quads, stream<PageWeights>& weights, int page_count, int channels,
                int planes, stream<QuadSums>& sums) {
  QuadSums partial[kQuads];
#pragma HLS array_partition variable = partial complete dim = 0
sum_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const PageWeights of_page = weights.read();
  sum_passes:
    for (int pass = 0; pass < planes; ++pass) {
#pragma HLS loop_tripcount max = 4
    sum_quads:
      for (int quad = 0; quad < kQuads; ++quad) {
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A quad comes back to its sums 16 cycles later.
        const Burst bits = quads.read();
        for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
          for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
            Partial sum = pass == 0 ? Partial(0) : Partial(partial[quad].of[row][token] << 1);
            for (int channel = 0; channel < kMaxChannels; ++channel) {
#pragma HLS unroll
              const bool is_set = channel < channels && bits[token * channels + channel] == 1;
              if (is_set) sum += of_page.of[row][channel];
            }
            partial[quad].of[row][token] = sum;
          }
        }
        if (pass + 1 == planes) sums.write(partial[quad]);
      }
    }
  }
}

void write_midpoints(stream<QuadSums>& sums, stream<PerRow<RowPlace>>& places,
                     const std::uint64_t* visible, int page_count, int planes, Burst* midpoints) {
write_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const PerRow<RowPlace> place = places.read();
    const TokenMask mask = visible[page];
  write_quads:
    for (int quad = 0; quad < kQuads; ++quad) {
#pragma HLS pipeline II = 1  // Tokens and rows do not depend on one another.
      const QuadSums of_quad = sums.read();
      Burst burst = 0;
      for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
        for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
          const std::int64_t midpoint =
              place.row[row].offset + (of_quad.of[row][token].to_int64() << (8 - planes));
          const std::int64_t shifted = midpoint >> place.row[row].shift;
          const bool is_visible = mask[quad * kQuadTokens + token] == 1;
          const std::int64_t stored =
              is_visible ? clamped<std::int64_t>(shifted, kMidpointLimit) : kHiddenMidpoint;
          set_part<16>(burst, token * kRows + row, ap_uint<16>(stored));
        }
      }
      midpoints[page * kQuads + quad] = burst;
    }
  }
}

void score_planes(const Burst* memory, const std::uint32_t* pages, const std::int16_t* steps,
                  const std::uint64_t* visible, int page_count, ArrayPlace digest_at,
                  ArrayPlace planes_at, const QueryInteger query[kRows][kMaxChannels], int channels,
                  int key_exponent, int planes, Burst* midpoints, Burst* scales) {
#pragma HLS dataflow
  stream<std::uint32_t> list("list");
  stream<Burst> digests("digests");
  stream<Burst> bursts("bursts");
  stream<Burst> quads("quads");
  stream<PageWeights> weights("weights");
  stream<PerRow<RowPlace>> places("places");
  stream<QuadSums> sums("sums");
#pragma HLS stream variable = list depth = 4
#pragma HLS stream variable = digests depth = 8
#pragma HLS stream variable = bursts depth = 128
#pragma HLS stream variable = weights depth = 2
#pragma HLS stream variable = places depth = 4
#pragma HLS stream variable = sums depth = 16
  read_list(pages, page_count, list);
  read_pages(memory, list, page_count, digest_at, digests, planes_at, bursts);
  cut(bursts, page_count, kQuads * planes, kQuadTokens * channels / 8, 0, quads);
  fold_pages(digests, query, steps, page_count, channels, key_exponent, planes, weights, places,
             scales);
  sum_planes(quads, weights, page_count, channels, planes, sums);
  write_midpoints(sums, places, visible, page_count, planes, midpoints);
}

}  // namespace

extern "C" void nearkv_plane_score(const Burst* memory, const std::uint32_t* pages,
                                   const std::int16_t* steps, const std::uint64_t* visible,
                                   int page_count, ArrayPlace digest_at, ArrayPlace planes_at,
                                   const Burst* query, int group, int channels, int key_exponent,
                                   int planes, Burst* midpoints, Burst* scales) {
#pragma HLS interface mode = m_axi port = memory bundle = pages max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = pages bundle = lists
#pragma HLS interface mode = m_axi port = steps bundle = steps
#pragma HLS interface mode = m_axi port = query bundle = steps
#pragma HLS interface mode = m_axi port = visible bundle = masks
#pragma HLS interface mode = m_axi port = midpoints bundle = results
#pragma HLS interface mode = m_axi port = scales bundle = scales
  QueryInteger integers[kRows][kMaxChannels];
#pragma HLS array_partition variable = integers complete dim = 1
#pragma HLS array_partition variable = integers cyclic factor = 16 dim = 2
  PerRow<int> exponents;
  load_query(query, group, channels, integers, &exponents);
  score_planes(memory, pages, steps, visible, page_count, digest_at, planes_at, integers, channels,
               key_exponent, planes, midpoints, scales);
}

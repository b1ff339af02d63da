#include "kernels/digest_bound.hpp"

#include "kernels/planes.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

void read_digests(const Burst* memory, stream<std::uint32_t>& places, int page_count,
                  ArrayPlace digest_at, stream<Burst>& digests) {
  std::uint32_t first = 0;
read_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  read_digest:
    for (std::uint32_t i = 0; i < digest_at.bursts; ++i) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A burst per cycle is what the port delivers.
      if (i == 0) first = places.read() + digest_at.first;
      digests.write(memory[first + i]);
    }
  }
}

void fold_pages(stream<Burst>& digests, const QueryInteger query[kRows][kMaxChannels],
                const std::int16_t* steps, int page_count, int channels, int key_exponent,
                stream<PerRow<FoldSums>>& folded) {
fold_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    PlaneWeight weights[kRows][kMaxChannels];  // Not wanted here: synthesis drops them.
    PerRow<FoldSums> sums;
    fold_page(digests, query, channels, steps[page], key_exponent, weights, &sums);
    folded.write(sums);
  }
}

void write_bounds(stream<PerRow<FoldSums>>& folded, int page_count, int planes, int sixteenths,
                  Burst* bounds) {
write_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const PerRow<FoldSums> sums = folded.read();
  write_rows:
    for (int row = 0; row < kRows; ++row) {
      const FoldSums& of_row = sums.row[row];
      Burst burst = 0;
      set_part<64>(burst, kConstant, ap_uint<64>(of_row.constant));
      set_part<64>(burst, kWeightSum, ap_uint<64>(of_row.weight_sum));
      set_part<64>(burst, kSquares, ap_uint<64>(of_row.squares));
      set_part<64>(burst, kRemainder, ap_uint<64>(of_row.remainder));
      set_part<64>(burst, kRadius, ap_uint<64>(radius_of(of_row, planes, sixteenths)));
      bounds[page * kRows + row] = burst;
    }
  }
}

void bound_pages(const Burst* memory, const std::uint32_t* pages, const std::int16_t* steps,
                 int page_count, ArrayPlace digest_at,
                 const QueryInteger query[kRows][kMaxChannels], int channels, int key_exponent,
                 int planes, int sixteenths, Burst* bounds) {
#pragma HLS dataflow
  stream<std::uint32_t> places("places");
  stream<Burst> digests("digests");
  stream<PerRow<FoldSums>> folded("folded");
#pragma HLS stream variable = places depth = 4
#pragma HLS stream variable = digests depth = 16
  read_list(pages, page_count, places);
  read_digests(memory, places, page_count, digest_at, digests);
  fold_pages(digests, query, steps, page_count, channels, key_exponent, folded);
  write_bounds(folded, page_count, planes, sixteenths, bounds);
}

}  // namespace

extern "C" void nearkv_digest_bound(const Burst* memory, const std::uint32_t* pages,
                                    const std::int16_t* steps, int page_count, ArrayPlace digest_at,
                                    const Burst* query, int group, int channels, int key_exponent,
                                    int planes, int sixteenths, Burst* bounds) {
#pragma HLS interface mode = m_axi port = memory bundle = pages max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = pages bundle = lists
#pragma HLS interface mode = m_axi port = steps bundle = steps
#pragma HLS interface mode = m_axi port = query bundle = steps
#pragma HLS interface mode = m_axi port = bounds bundle = results
  QueryInteger integers[kRows][kMaxChannels];
#pragma HLS array_partition variable = integers complete dim = 1
#pragma HLS array_partition variable = integers cyclic factor = 16 dim = 2
  PerRow<int> exponents;
  load_query(query, group, channels, integers, &exponents);
  bound_pages(memory, pages, steps, page_count, digest_at, integers, channels, key_exponent, planes,
              sixteenths, bounds);
}

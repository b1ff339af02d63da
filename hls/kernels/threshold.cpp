#include "kernels/threshold.hpp"

#include "kernels/number.hpp"
#include "kernels/plane_score.hpp"

using namespace nearkv::kernels;

namespace {

constexpr int kBins = NKV_HISTOGRAM_BINS;
constexpr int kBinShift = 4;  // 16-bit midpoints in 4,096 bins.

using Count = ap_uint<21>;  // MAX_TOKENS fits.

/// One histogram for each row and token of a quad: no two of a quad meet in a memory.
struct Histogram {
  Count bins[kBins];
};

/// The bin that was counted last, in registers, so that a bin hit twice in a row is no hazard.
struct LastBin {
  ap_uint<12> bin;
  Count count;
};

void read_midpoints(const Burst* midpoints, int page_count, stream<Burst>& quads) {
read_quads:
  for (int quad = 0; quad < page_count * kQuads; ++quad) {
#pragma HLS loop_tripcount max = 262144
#pragma HLS pipeline II = 1  // A burst per cycle is what the port delivers.
    quads.write(midpoints[quad]);
  }
}

void count_bins(stream<Burst>& quads, const std::uint64_t* visible, int page_count,
                Histogram histograms[kRows][kQuadTokens]) {
  LastBin last[kRows][kQuadTokens];
#pragma HLS array_partition variable = last complete dim = 0
clear_bins:
  for (int bin = 0; bin < kBins; ++bin) {
#pragma HLS pipeline II = 1  // All memories at once.
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
        histograms[row][token].bins[bin] = 0;
        last[row][token] = LastBin{0, 0};
      }
    }
  }
count_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const TokenMask mask = visible[page];
  count_quads:
    for (int quad = 0; quad < kQuads; ++quad) {
#pragma HLS loop_flatten off
// A bin is read only when another was counted last, and that one is written back first.
#pragma HLS dependence variable = histograms inter distance = 2 true
#pragma HLS pipeline II = 1  // By the register above, and a memory that writes before it reads.
      const Burst burst = quads.read();
      for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
        for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
          const ap_int<16> midpoint = part_of<16>(burst, token * kRows + row);
          const ap_uint<12> bin = (midpoint.to_int() + 32768) >> kBinShift;
          LastBin& held = last[row][token];
          Histogram& histogram = histograms[row][token];
          if (mask[quad * kQuadTokens + token] == 1) {
            if (bin != held.bin) {
              histogram.bins[held.bin] = held.count;
              held = LastBin{bin, histogram.bins[bin]};
            }
            held.count += 1;
          }
        }
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
      histograms[row][token].bins[last[row][token].bin] = last[row][token].count;
    }
  }
}

void walk_bins(const Histogram histograms[kRows][kQuadTokens], int count, Burst* thresholds) {
  Count reached[kRows];
  ap_uint<12> threshold[kRows];
  bool is_found[kRows];
#pragma HLS array_partition variable = reached complete
#pragma HLS array_partition variable = threshold complete
#pragma HLS array_partition variable = is_found complete
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    reached[row] = 0;
    threshold[row] = 0;
    is_found[row] = false;
  }
walk_bins:
  for (int bin = kBins - 1; bin > 0; --bin) {
#pragma HLS pipeline II = 1  // A bin of each memory per cycle; an addition carries on.
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      Count in_bin = 0;
      for (int token = 0; token < kQuadTokens; ++token) {
#pragma HLS unroll
        in_bin += histograms[row][token].bins[bin];
      }
      reached[row] += in_bin;
      if (!is_found[row] && reached[row] >= count) {
        is_found[row] = true;
        threshold[row] = bin;
      }
    }
  }
  Burst burst = 0;
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    set_part<64>(burst, row, ap_uint<64>(threshold[row]));
  }
  thresholds[0] = burst;
}

void find_thresholds(const Burst* midpoints, const std::uint64_t* visible, int page_count,
                     int count, Burst* thresholds) {
#pragma HLS dataflow
  stream<Burst> quads("quads");
#pragma HLS stream variable = quads depth = 64
  static Histogram histograms[kRows][kQuadTokens];  // Half a megabyte: block memory, no stack.
#pragma HLS array_partition variable = histograms complete dim = 1
#pragma HLS array_partition variable = histograms complete dim = 2
  read_midpoints(midpoints, page_count, quads);
  count_bins(quads, visible, page_count, histograms);
  walk_bins(histograms, count, thresholds);
}

}  // namespace

extern "C" void nearkv_threshold(const Burst* midpoints, const std::uint64_t* visible,
                                 int page_count, int count, Burst* thresholds) {
#pragma HLS interface mode = m_axi port = midpoints bundle = midpoints max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = visible bundle = masks
#pragma HLS interface mode = m_axi port = thresholds bundle = results
  find_thresholds(midpoints, visible, page_count, count, thresholds);
}

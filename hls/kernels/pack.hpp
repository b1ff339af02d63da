// From pieces of bytes back to bursts.
#ifndef NEARKV_HLS_PACK_HPP_
#define NEARKV_HLS_PACK_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

/// Some bytes, from the start of a burst; those behind them are zero.
struct Piece {
  Burst bytes;
  ap_uint<7> count;
};

/// Pieces one after the other, as bursts; the last one is filled up with zeros. Returns nothing:
/// who sends the pieces knows how many bytes they are.
inline void pack(stream<Piece>& pieces, int piece_count, Burst* out) {
  ap_uint<2 * 8 * kBurstBytes> window = 0;
  int held = 0;
  int next = 0;
pack_pieces:
  for (int i = 0; i < piece_count; ++i) {
#pragma HLS loop_tripcount max = 260
#pragma HLS pipeline II = 1  // At most one burst goes for each piece that comes.
    const Piece piece = pieces.read();
    window |= ap_uint<2 * 8 * kBurstBytes>(piece.bytes) << 8 * held;
    held += piece.count.to_int();
    if (held >= kBurstBytes) {
      out[next++] = Burst(window);
      window >>= 8 * kBurstBytes;
      held -= kBurstBytes;
    }
  }
  if (held > 0) out[next] = Burst(window);
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_PACK_HPP_

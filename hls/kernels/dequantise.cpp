#include "kernels/pack.hpp"
#include "kernels/quant_number.hpp"
#include "kernels/quantise.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

constexpr int kMostGroups = kMaxChannels;

/// A group's parameters as a block has them.
struct StoredGroup {
  Bf16 zero;
  Bf16 scale;
};

/// Pieces of the parameters, then of the codes: 64 bytes, or what a token has of them.
void cut_block(stream<Burst>& bursts, int parameter_bytes, int row_bytes, stream<Burst>& out) {
  const int parameter_pieces = (parameter_bytes + kBurstBytes - 1) / kBurstBytes;
  const int per_row = (row_bytes + kBurstBytes - 1) / kBurstBytes;
  ap_uint<2 * 8 * kBurstBytes> window = 0;
  int held = 0;
  int in_row = 0;
cut_pieces:
  for (int i = 0; i < parameter_pieces + kTokens * per_row; ++i) {
#pragma HLS loop_tripcount max = 136
#pragma HLS pipeline II = 1  // At most one burst comes for each piece that goes.
    const bool is_parameters = i < parameter_pieces;
    const int left =
        is_parameters ? parameter_bytes - i * kBurstBytes : row_bytes - in_row * kBurstBytes;
    const int wanted = least_of(left, kBurstBytes);
    if (held < wanted) {
      window |= ap_uint<2 * 8 * kBurstBytes>(bursts.read()) << 8 * held;
      held += kBurstBytes;
    }
    const Burst mask = ~Burst(0) >> 8 * (kBurstBytes - wanted);
    out.write(Burst(window) & mask);
    window >>= 8 * wanted;
    held -= wanted;
    in_row = is_parameters || in_row + 1 == per_row ? 0 : in_row + 1;
  }
}

void read_block(const Burst* block, QuantShape shape, stream<Burst>& out) {
  const int bursts = (quant_bytes(shape) + kBurstBytes - 1) / kBurstBytes;
  read_bursts(block, 0, static_cast<std::uint32_t>(bursts), out);
}

void decode_tokens(stream<Burst>& pieces, QuantShape shape, stream<Piece>& rows, bool* is_good) {
  const bool is_fp8 = shape.codec == NKV_CODEC_FP8;
  const bool is_nibbles = shape.codec == NKV_CODEC_INT4;
  const int group_count = shape.per_channel ? shape.channels : kTokens;
  const int group_bytes = is_fp8 ? 1 : 4;
  const int per_piece = kBurstBytes / group_bytes;
  const int words = words_of(shape.channels);
  const int row_bytes = is_nibbles ? shape.channels / 2 : shape.channels;
  StoredGroup groups[kMostGroups];
#pragma HLS array_partition variable = groups complete
  bool all_good = true;
  for (int first = 0; first < group_count; first += per_piece) {
#pragma HLS loop_tripcount max = 8
#pragma HLS pipeline II = 1  // A piece holds 16 groups or 64.
    const Burst piece = pieces.read();
    for (int i = 0; i < kBurstBytes; ++i) {
#pragma HLS unroll
      if (i < per_piece && first + i < group_count) {
        StoredGroup& group = groups[first + i];
        if (is_fp8) {
          group = StoredGroup{0, part_of<8>(piece, i)};
        } else {
          group = StoredGroup{part_of<16>(piece, 2 * i % 32), part_of<16>(piece, (2 * i + 1) % 32)};
          all_good &= ap_uint<15>(group.zero).to_int() < kBf16Limit;
          all_good &= group.scale.to_int() <= kBf16Limit;
        }
      }
    }
  }
  Burst codes[kMaxChannels / kBurstBytes];
#pragma HLS array_partition variable = codes complete
decode_tokens:
  for (int token = 0; token < kTokens; ++token) {
  decode_words:
    for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // At most two pieces for four words, each before a word of its own.
      const bool takes_first = word == 0;
      const bool takes_second = word == 1 && row_bytes > kBurstBytes;
      if (takes_first || takes_second) codes[takes_first ? 0 : 1] = pieces.read();
      const int left = shape.channels - word * kLanes;
      Piece row;
      row.bytes = 0;
      row.count = 2 * least_of(left, kLanes);
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        const int channel = word * kLanes + lane;
        if (lane < left) {
          const bool is_high = is_nibbles && channel >= row_bytes;
          const int at = is_high ? channel - row_bytes : channel;
          const ap_uint<8> byte = part_of<8>(codes[at / kBurstBytes], at % kBurstBytes);
          const ap_uint<8> nibble = is_high ? byte.range(7, 4) : byte.range(3, 0);
          const ap_uint<8> code = is_nibbles ? nibble : byte;
          const StoredGroup group = groups[shape.per_channel ? channel : token];
          all_good &= !is_fp8 || ap_uint<7>(code) != 0x7f;
          set_part<16>(
              row.bytes, lane,
              is_fp8 ? fp8_value(code, group.scale) : integer_value(code, group.zero, group.scale));
        }
      }
      rows.write(row);
    }
  }
  *is_good = all_good;
}

void decode(const Burst* block, QuantShape shape, Burst* rows, bool* is_good) {
#pragma HLS dataflow
  stream<Burst> bursts("bursts");
  stream<Burst> pieces("pieces");
  stream<Piece> of_rows("of_rows");
  const int group_count = shape.per_channel ? shape.channels : kTokens;
  const int parameter_bytes = shape.codec == NKV_CODEC_FP8 ? group_count : 4 * group_count;
  const int row_bytes = shape.codec == NKV_CODEC_INT4 ? shape.channels / 2 : shape.channels;
  read_block(block, shape, bursts);
  cut_block(bursts, parameter_bytes, row_bytes, pieces);
  decode_tokens(pieces, shape, of_rows, is_good);
  pack(of_rows, kTokens * words_of(shape.channels), rows);
}

}  // namespace

extern "C" bool nearkv_dequantise(const Burst* block, QuantShape shape, Burst* rows) {
#pragma HLS interface mode = m_axi port = block bundle = block max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = rows bundle = rows
  bool is_good = false;
  decode(block, shape, rows, &is_good);
  return is_good;
}

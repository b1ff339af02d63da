#include "kernels/quantise.hpp"

#include "kernels/pack.hpp"
#include "kernels/quant_number.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

constexpr int kMostGroups = kMaxChannels;  // Channels; tokens are fewer.

struct Range {
  ap_int<16> low;
  ap_int<16> high;
};

/// The codes of a token.
struct CodeRow {
  ap_uint<8> of[kMaxChannels];
};

void read_rows(const Burst* rows, int channels, stream<Burst>& out) {
  const int bursts = kTokens * 2 * channels / kBurstBytes;
  read_bursts(rows, 0, static_cast<std::uint32_t>(bursts), out);
}

/// The block on chip, and its groups' ranges in the order of values.
void collect(stream<Burst>& pieces, QuantShape shape, Bf16 block[kTokens][kMaxChannels],
             Range of_channels[kMaxChannels], Range of_tokens[kTokens], bool* is_good) {
  const int limit = shape.codec == NKV_CODEC_FP8 ? kBf16Infinity : kBf16Limit;
  bool all_good = true;
collect_tokens:
  for (int token = 0; token < kTokens; ++token) {
    Range of_token{32767, -32768};
  collect_words:
    for (int word = 0; word < words_of(shape.channels); ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS pipeline II = 1  // Extremes come back after a row; a tree of comparisons for the token.
      const Burst piece = pieces.read();
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        const int channel = word * kLanes + lane;
        const Bf16 element = part_of<16>(piece, lane);
        const ap_int<16> key = ordered(element);
        const bool is_there = channel < shape.channels;
        const Range before = token == 0 ? Range{32767, -32768} : of_channels[channel];
        block[token][channel] = element;
        of_channels[channel] = Range{least_of(before.low, key), largest_of(before.high, key)};
        if (is_there) {
          of_token = Range{least_of(of_token.low, key), largest_of(of_token.high, key)};
          all_good &= ap_uint<15>(element).to_int() < limit;
        }
      }
    }
    of_tokens[token] = of_token;
  }
  *is_good = all_good;
}

/// Parameters of every group: kept for the codes, and sent as the block begins with them.
void make_parameters(const Range of_channels[kMaxChannels], const Range of_tokens[kTokens],
                     QuantShape shape, GroupParameters groups[kMostGroups], stream<Piece>& pieces) {
  const int count = shape.per_channel ? shape.channels : kTokens;
  const bool is_fp8 = shape.codec == NKV_CODEC_FP8;
make_groups:
  for (int group = 0; group < count; ++group) {
#pragma HLS loop_tripcount max = 128
#pragma HLS pipeline II = 1  // One divider of each kind; groups do not depend on one another.
    const Range range = shape.per_channel ? of_channels[group] : of_tokens[group];
    const Bf16 low = flushed(Bf16(ordered(Bf16(range.low))));
    const Bf16 high = flushed(Bf16(ordered(Bf16(range.high))));
    groups[group] = group_parameters(low, high, shape.codec);
    Piece piece;
    piece.bytes = 0;
    if (is_fp8) {
      set_part<8>(piece.bytes, 0, ap_uint<8>(groups[group].scale));
    } else {
      set_part<16>(piece.bytes, 0, groups[group].zero);
      set_part<16>(piece.bytes, 1, groups[group].scale);
    }
    piece.count = is_fp8 ? 1 : 4;
    pieces.write(piece);
  }
}

void make_codes(const Bf16 block[kTokens][kMaxChannels], const GroupParameters groups[kMostGroups],
                QuantShape shape, stream<CodeRow>& rows) {
  const int max_code = shape.codec == NKV_CODEC_INT4 ? 15 : 255;
  CodeRow row;
#pragma HLS array_partition variable = row.of complete
code_tokens:
  for (int token = 0; token < kTokens; ++token) {
  code_words:
    for (int word = 0; word < words_of(shape.channels); ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // Elements do not depend on one another.
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        const int channel = word * kLanes + lane;
        if (channel < shape.channels) {
          const GroupParameters group = groups[shape.per_channel ? channel : token];
          const Bf16 element = block[token][channel];
          row.of[channel] = shape.codec == NKV_CODEC_FP8 ? fp8_code(element, group.scale)
                                                         : integer_code(element, group, max_code);
        }
      }
      if (word + 1 == words_of(shape.channels)) rows.write(row);
    }
  }
}

/// Codes as a block has them: a byte each, or of INT4 channel c and c + channels / 2 in a byte.
void send_codes(stream<CodeRow>& rows, QuantShape shape, stream<Piece>& pieces) {
  const bool is_nibbles = shape.codec == NKV_CODEC_INT4;
  const int row_bytes = is_nibbles ? shape.channels / 2 : shape.channels;
  const int per_row = (row_bytes + kBurstBytes - 1) / kBurstBytes;
  CodeRow row;
#pragma HLS array_partition variable = row.of complete
send_tokens:
  for (int token = 0; token < kTokens; ++token) {
  send_pieces:
    for (int i = 0; i < per_row; ++i) {
#pragma HLS loop_tripcount max = 2
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A row comes at most every second cycle.
      if (i == 0) row = rows.read();
      Piece piece;
      piece.bytes = 0;
      piece.count = least_of(row_bytes - i * kBurstBytes, kBurstBytes);
      for (int byte = 0; byte < kBurstBytes; ++byte) {
#pragma HLS unroll
        const int at = i * kBurstBytes + byte;
        if (at < row_bytes) {
          ap_uint<8> code = row.of[at];
          if (is_nibbles) code.range(7, 4) = row.of[at + row_bytes].range(3, 0);
          set_part<8>(piece.bytes, byte, code);
        }
      }
      pieces.write(piece);
    }
  }
}

/// First the parameters, then the codes.
void one_after_the_other(stream<Piece>& parameters, int parameter_count, stream<Piece>& codes,
                         int code_count, stream<Piece>& out) {
send_all:
  for (int i = 0; i < parameter_count + code_count; ++i) {
#pragma HLS loop_tripcount max = 256
#pragma HLS pipeline II = 1  // A piece of one or the other.
    if (i < parameter_count) {
      out.write(parameters.read());
    } else {
      out.write(codes.read());
    }
  }
}

void encode(const Burst* rows, QuantShape shape, Burst* block, bool* is_good) {
#pragma HLS dataflow
  stream<Burst> bursts("bursts");
  stream<Burst> pieces("pieces");
  stream<Piece> parameters("parameters");
  stream<CodeRow> code_rows("code_rows");
  stream<Piece> codes("codes");
  stream<Piece> all("all");
#pragma HLS stream variable = parameters depth = 128
  Bf16 elements[kTokens][kMaxChannels];
  Range of_channels[kMaxChannels];
  Range of_tokens[kTokens];
  GroupParameters groups[kMostGroups];
#pragma HLS array_partition variable = elements cyclic factor = 32 dim = 2
#pragma HLS array_partition variable = of_channels complete
#pragma HLS array_partition variable = groups cyclic factor = 32
  const int row_bytes = shape.codec == NKV_CODEC_INT4 ? shape.channels / 2 : shape.channels;
  const int code_pieces = kTokens * ((row_bytes + kBurstBytes - 1) / kBurstBytes);
  const int group_count = shape.per_channel ? shape.channels : kTokens;
  read_rows(rows, shape.channels, bursts);
  cut(bursts, 1, kTokens, 2 * shape.channels, 0, pieces);
  collect(pieces, shape, elements, of_channels, of_tokens, is_good);
  make_parameters(of_channels, of_tokens, shape, groups, parameters);
  make_codes(elements, groups, shape, code_rows);
  send_codes(code_rows, shape, codes);
  one_after_the_other(parameters, group_count, codes, code_pieces, all);
  pack(all, group_count + code_pieces, block);
}

}  // namespace

extern "C" bool nearkv_quantise(const Burst* rows, QuantShape shape, Burst* block) {
#pragma HLS interface mode = m_axi port = rows bundle = rows max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = block bundle = block
  bool is_good = false;
  encode(rows, shape, block, &is_good);
  return is_good;
}

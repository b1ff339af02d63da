#include "kernels/exponent_delta.hpp"

#include "kernels/number.hpp"
#include "kernels/pack.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

using Element = ap_uint<kElementBits>;
using Exponent = ap_uint<8>;

constexpr int kGroup = 8;  // Channels of a burst of a plane: 64 tokens each.
constexpr int kGroups = kMaxChannels / kGroup;
constexpr int kReferenceBursts = kMaxChannels / kBurstBytes;

Exponent exponent_of(Element element) { return element.range(14, 7); }

/// The element with its exponent's distance to the reference instead, modulo 256; its own inverse.
Element reflected(Element element, Exponent reference) {
#pragma HLS inline
  Element result = element;
  result.range(14, 7) = Exponent(reference - exponent_of(element));
  return result;
}

void read_all(const Burst* memory, int bursts, stream<Burst>& out) {
  read_bursts(memory, 0, static_cast<std::uint32_t>(bursts), out);
}

/// The block on chip, and each channel's largest exponent but that of NaN and infinities.
void collect_rows(stream<Burst>& pieces, int channels, Element block[kTokens][kMaxChannels],
                  Exponent largest[kMaxChannels]) {
  const int words = words_of(channels);
collect_tokens:
  for (int token = 0; token < kTokens; ++token) {
  collect_words:
    for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A maximum comes back after a row: a comparison at worst.
      const Burst piece = pieces.read();
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        const int channel = word * kLanes + lane;
        const Element element = part_of<kElementBits>(piece, lane);
        const Exponent exponent = exponent_of(element);
        const Exponent before = token == 0 ? Exponent(0) : largest[channel];
        block[token][channel] = element;
        largest[channel] = exponent != 255 && exponent > before ? exponent : before;
      }
    }
  }
}

void give_planes(const Element block[kTokens][kMaxChannels], const Exponent largest[kMaxChannels],
                 int channels, Burst* references, Burst* planes) {
give_references:
  for (int burst = 0; burst * kBurstBytes < channels; ++burst) {
#pragma HLS loop_tripcount max = 2
    Burst out = 0;
    for (int byte = 0; byte < kBurstBytes; ++byte) {
#pragma HLS unroll
      const int channel = burst * kBurstBytes + byte;
      if (channel < channels) set_part<8>(out, byte, largest[channel]);
    }
    references[burst] = out;
  }
give_planes:
  for (int plane = 0; plane < kElementBits; ++plane) {
  give_groups:
    for (int group = 0; group < channels / kGroup; ++group) {
#pragma HLS loop_tripcount max = 16
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // The block lies in a memory per token and lane.
      Burst out = 0;
      for (int channel = 0; channel < kGroup; ++channel) {
#pragma HLS unroll
        for (int token = 0; token < kTokens; ++token) {
#pragma HLS unroll
          const int of_page = group * kGroup + channel;
          const Element element = reflected(block[token][of_page], largest[of_page]);
          out[channel * kTokens + token] = element[kBitOfPlane[plane]];
        }
      }
      planes[plane * (channels / kGroup) + group] = out;
    }
  }
}

void encode(const Burst* rows, int channels, Burst* references, Burst* planes) {
#pragma HLS dataflow
  stream<Burst> bursts("bursts");
  stream<Burst> pieces("pieces");
  Element block[kTokens][kMaxChannels];
  Exponent largest[kMaxChannels];
#pragma HLS array_partition variable = block complete dim = 1
#pragma HLS array_partition variable = block cyclic factor = 32 dim = 2
#pragma HLS array_partition variable = largest complete
  read_all(rows, kTokens * 2 * channels / kBurstBytes, bursts);
  cut(bursts, 1, kTokens, 2 * channels, 0, pieces);
  collect_rows(pieces, channels, block, largest);
  give_planes(block, largest, channels, references, planes);
}

/// Bits of each plane, token and group of channels.
using GroupBits = ap_uint<kGroup>;

void collect_planes(stream<Burst>& bursts, int channels,
                    GroupBits bits[kElementBits][kTokens][kGroups]) {
collect_planes:
  for (int plane = 0; plane < kElementBits; ++plane) {
  collect_groups:
    for (int group = 0; group < channels / kGroup; ++group) {
#pragma HLS loop_tripcount max = 16
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A memory per plane and token takes a byte each.
      const Burst burst = bursts.read();
      for (int token = 0; token < kTokens; ++token) {
#pragma HLS unroll
        GroupBits of_token = 0;
        for (int channel = 0; channel < kGroup; ++channel) {
#pragma HLS unroll
          of_token[channel] = burst[channel * kTokens + token];
        }
        bits[plane][token][group] = of_token;
      }
    }
  }
}

void give_rows(const GroupBits bits[kElementBits][kTokens][kGroups], const Burst* references,
               int channels, stream<Piece>& pieces) {
  Burst held[kReferenceBursts];
#pragma HLS array_partition variable = held complete
take_references:
  for (int burst = 0; burst < kReferenceBursts; ++burst) {
    held[burst] = burst * kBurstBytes < channels ? references[burst] : Burst(0);
  }
give_tokens:
  for (int token = 0; token < kTokens; ++token) {
  give_words:
    for (int word = 0; word < words_of(channels); ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // Four groups of each plane are read side by side.
      const int left = channels - word * kLanes;
      Piece piece;
      piece.bytes = 0;
      piece.count = 2 * least_of(left, kLanes);
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        const int channel = word * kLanes + lane;
        Element element = 0;
        for (int plane = 0; plane < kElementBits; ++plane) {
#pragma HLS unroll
          element[kBitOfPlane[plane]] = bits[plane][token][channel / kGroup][channel % kGroup];
        }
        const Exponent reference = part_of<8>(held[channel / kBurstBytes], channel % kBurstBytes);
        if (lane < left) {
          set_part<kElementBits>(piece.bytes, lane, reflected(element, reference));
        }
      }
      pieces.write(piece);
    }
  }
}

void decode(const Burst* references, const Burst* planes, int channels, Burst* rows) {
#pragma HLS dataflow
  stream<Burst> bursts("bursts");
  stream<Piece> pieces("pieces");
  GroupBits bits[kElementBits][kTokens][kGroups];
#pragma HLS array_partition variable = bits complete dim = 1
#pragma HLS array_partition variable = bits complete dim = 2
#pragma HLS array_partition variable = bits cyclic factor = 4 dim = 3
  read_all(planes, kElementBits * channels / kGroup, bursts);
  collect_planes(bursts, channels, bits);
  give_rows(bits, references, channels, pieces);
  pack(pieces, kTokens * words_of(channels), rows);
}

}  // namespace

extern "C" void nearkv_exponent_delta_encode(const Burst* rows, int channels, Burst* references,
                                             Burst* planes) {
#pragma HLS interface mode = m_axi port = rows bundle = rows max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = references bundle = planes
#pragma HLS interface mode = m_axi port = planes bundle = planes
  encode(rows, channels, references, planes);
}

extern "C" void nearkv_exponent_delta_decode(const Burst* references, const Burst* planes,
                                             int channels, Burst* rows) {
#pragma HLS interface mode = m_axi port = references bundle = references
#pragma HLS interface mode = m_axi port = planes bundle = planes max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = rows bundle = rows
  decode(references, planes, channels, rows);
}

#include "kernels/attend.hpp"

#include "kernels/query.hpp"
#include "kernels/softmax.hpp"

using namespace nearkv::kernels;

namespace {

/// By how much a row's sums are shifted before a page is added.
using Raise = PerRow<ap_uint<6>>;
using Weights = PerRow<Weight>;

/// Of each page first the raise of M, then its tokens' weights against it. Two loops of 64 cycles,
/// where a page's values take up to 256.
void weigh(stream<PerRow<Score>>& scores, const std::uint64_t* visible, int page_count,
           PerRow<int> query_exponents, AttendScale scale, stream<Raise>& raises,
           stream<Weights>& weights, std::int64_t references[kRows]) {
  const LogitScale logit_scale_of = logit_scale(scale.scale, scale.soft_cap, scale.key_exponent);
  std::int64_t reference[kRows];
  std::int64_t largest[kRows];
  std::int64_t logits[kTokens][kRows];
#pragma HLS array_partition variable = reference complete
#pragma HLS array_partition variable = largest complete
#pragma HLS array_partition variable = logits complete dim = 2
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    reference[row] = kNoReference;
  }
weigh_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const TokenMask mask = visible[page];
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      largest[row] = reference[row];
    }
  find_largest:
    for (int token = 0; token < kTokens; ++token) {
#pragma HLS pipeline II = 1  // A maximum carries on; scores come every fourth cycle at the most.
      const PerRow<Score> of_token = scores.read();
      for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
        const std::int64_t logit =
            logit_of(logit_scale_of, of_token.row[row], query_exponents.row[row]);
        logits[token][row] = logit;
        if (mask[token] == 1) largest[row] = largest_of<std::int64_t>(largest[row], logit >> 16);
      }
    }
    Raise raise;
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      raise.row[row] = least_of<std::int64_t>(largest[row] - reference[row], 63);
      reference[row] = largest[row];
    }
    raises.write(raise);
  give_weights:
    for (int token = 0; token < kTokens; ++token) {
#pragma HLS pipeline II = 1  // Tokens do not depend on one another.
      Weights of_token;
      for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
        of_token.row[row] = weight_of(logits[token][row], reference[row]);
        if (mask[token] == 0) of_token.row[row].shift = kLargestWeightShift + 1;
      }
      weights.write(of_token);
    }
  }
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    references[row] = reference[row];
  }
}

/// z and acc: kLanes channels of kRows rows per cycle.
void accumulate(stream<Raise>& raises, stream<Weights>& weights, stream<Word<ValueInteger>>& values,
                int page_count, int channels, std::int64_t acc[kRows][kMaxChannels],
                std::int64_t z[kRows]) {
  const int words = words_of(channels);
  for (int word = 0; word < kMaxWords; ++word) {
#pragma HLS pipeline II = 1  // All rows and lanes of a word at once.
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      z[row] = 0;
      for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
        acc[row][word * kLanes + lane] = 0;
      }
    }
  }
  Weights of_token;
#pragma HLS array_partition variable = of_token.row complete
add_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
    const Raise raise = raises.read();
  raise_words:
    for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS pipeline II = 1  // A word of the sums is read, shifted and written.
      for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
        if (word == 0) z[row] = z[row] >> raise.row[row].to_int();
        for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
          std::int64_t& sum = acc[row][word * kLanes + lane];
          sum = sum >> raise.row[row].to_int();
        }
      }
    }
  add_tokens:
    for (int token = 0; token < kTokens; ++token) {
    add_words:
      for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A sum comes back after `words` cycles: one 64-bit addition at worst.
        const Word<ValueInteger> value = values.read();
        if (word == 0) of_token = weights.read();
        for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
          const Weight weight = of_token.row[row];
          const int shift = weight.shift.to_int();
          if (!is_nothing(weight)) {
            if (word == 0) z[row] += (weight.mantissa.to_int64() << 24) >> shift;
            for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
              const std::int64_t product = (weight.mantissa * value.lane[lane]).to_int64();
              acc[row][word * kLanes + lane] += product >> shift;
            }
          }
        }
      }
    }
  }
}

void write_result(const std::int64_t acc[kRows][kMaxChannels], const std::int64_t z[kRows],
                  const std::int64_t references[kRows], int group, int channels, AttendScale scale,
                  Burst* output, Burst* log_sum_exp) {
  constexpr int kOutputLanes = kBurstBytes / 4;
  Burst burst = 0;
write_rows:
  for (int row = 0; row < group && row < kRows; ++row) {
#pragma HLS loop_tripcount max = 8
  write_channels:
    for (int channel = 0; channel < channels; ++channel) {
#pragma HLS loop_tripcount max = 128
#pragma HLS pipeline II = 1  // One divider, as the RTL has.
      set_part<32>(burst, channel % kOutputLanes,
                   output_of(acc[row][channel], z[row], scale.value_exponent));
      if (channel % kOutputLanes == kOutputLanes - 1) {
        output[(row * channels + channel) / kOutputLanes] = burst;
      }
    }
  }
  Burst of_rows = 0;
  for (int row = 0; row < kRows; ++row) {
    set_part<32>(of_rows, row, log_sum_exp_of(references[row], z[row], scale.base2));
  }
  log_sum_exp[0] = of_rows;
}

void attend_pages(const Burst* keys, const std::uint32_t* key_pages, TensorPlace key_place,
                  const Burst* values, const std::uint32_t* value_pages, TensorPlace value_place,
                  const std::uint64_t* visible, int page_count,
                  const QueryInteger query[kRows][kMaxChannels], PerRow<int> query_exponents,
                  int group, AttendScale scale, Burst* output, Burst* log_sum_exp) {
#pragma HLS dataflow
  stream<std::uint32_t> key_places("key_places");
  stream<Burst> key_exponents("key_exponents");
  stream<Burst> key_bursts("key_bursts");
  stream<Burst> key_pieces("key_pieces");
  stream<StoredRow> key_rows("key_rows");
  stream<Word<KeyInteger>> key_words("key_words");
  stream<PerRow<Score>> scores("scores");
  stream<Raise> raises("raises");
  stream<Weights> weights("weights");
  stream<std::uint32_t> value_places("value_places");
  stream<Burst> value_exponents("value_exponents");
  stream<Burst> value_bursts("value_bursts");
  stream<Burst> value_pieces("value_pieces");
  stream<StoredRow> value_rows("value_rows");
  stream<Word<ValueInteger>> value_words("value_words");
#pragma HLS stream variable = key_places depth = 4
#pragma HLS stream variable = key_exponents depth = 4
#pragma HLS stream variable = key_bursts depth = 64
#pragma HLS stream variable = scores depth = 64
#pragma HLS stream variable = raises depth = 2
// A page's weights all leave before the next page's scores are looked at.
#pragma HLS stream variable = weights depth = 64
#pragma HLS stream variable = value_places depth = 4
#pragma HLS stream variable = value_exponents depth = 4
#pragma HLS stream variable = value_bursts depth = 64
  std::int64_t references[kRows];
  std::int64_t acc[kRows][kMaxChannels];
  std::int64_t z[kRows];
#pragma HLS array_partition variable = references complete
#pragma HLS array_partition variable = acc complete dim = 1
#pragma HLS array_partition variable = acc cyclic factor = 32 dim = 2
#pragma HLS array_partition variable = z complete
  read_list(key_pages, page_count, key_places);
  read_pages(keys, key_places, page_count, key_place.exponents, key_exponents, key_place.rows,
             key_bursts);
  cut_rows(key_bursts, page_count, key_place.shape, key_pieces);
  join_rows(key_pieces, page_count, key_place.shape, key_rows);
  decode_rows<AsKey>(key_rows, key_exponents, page_count, key_place.shape, scale.key_exponent,
                     key_words);
  dot_products(key_words, query, page_count, key_place.shape.channels, scores);
  weigh(scores, visible, page_count, query_exponents, scale, raises, weights, references);
  read_list(value_pages, page_count, value_places);
  read_pages(values, value_places, page_count, value_place.exponents, value_exponents,
             value_place.rows, value_bursts);
  cut_rows(value_bursts, page_count, value_place.shape, value_pieces);
  join_rows(value_pieces, page_count, value_place.shape, value_rows);
  decode_rows<AsValue>(value_rows, value_exponents, page_count, value_place.shape,
                       scale.value_exponent, value_words);
  accumulate(raises, weights, value_words, page_count, value_place.shape.channels, acc, z);
  write_result(acc, z, references, group, value_place.shape.channels, scale, output, log_sum_exp);
}

}  // namespace

extern "C" void nearkv_attend(const Burst* keys, const std::uint32_t* key_pages,
                              TensorPlace key_place, const Burst* values,
                              const std::uint32_t* value_pages, TensorPlace value_place,
                              const std::uint64_t* visible, int page_count, const Burst* query,
                              int group, AttendScale scale, Burst* output, Burst* log_sum_exp) {
#pragma HLS interface mode = m_axi port = keys bundle = keys max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = key_pages bundle = key_lists
#pragma HLS interface mode = m_axi port = values bundle = values max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = value_pages bundle = value_lists
#pragma HLS interface mode = m_axi port = visible bundle = masks
#pragma HLS interface mode = m_axi port = query bundle = masks
#pragma HLS interface mode = m_axi port = output bundle = results
#pragma HLS interface mode = m_axi port = log_sum_exp bundle = results
  QueryInteger integers[kRows][kMaxChannels];
#pragma HLS array_partition variable = integers complete dim = 1
#pragma HLS array_partition variable = integers cyclic factor = 32 dim = 2
  PerRow<int> exponents;
  load_query(query, group, key_place.shape.channels, integers, &exponents);
  attend_pages(keys, key_pages, key_place, values, value_pages, value_place, visible, page_count,
               integers, exponents, group, scale, output, log_sum_exp);
}

#include "kernels/score.hpp"

#include "kernels/query.hpp"

using namespace nearkv::kernels;

namespace {

void write_scores(stream<PerRow<Score>>& scores, int page_count, Burst* out) {
write_tokens:
  for (int token = 0; token < page_count * kTokens; ++token) {
#pragma HLS loop_tripcount max = 1048576
#pragma HLS pipeline II = 1  // A burst per token, where keys take several.
    const PerRow<Score> of_token = scores.read();
    Burst burst = 0;
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      set_part<64>(burst, row, ap_uint<64>(ap_int<64>(of_token.row[row])));
    }
    out[token] = burst;
  }
}

void score_pages(const Burst* memory, const std::uint32_t* pages, int page_count,
                 ArrayPlace exponents_at, ArrayPlace rows_at, RowShape keys,
                 const QueryInteger query[kRows][kMaxChannels], int key_exponent, Burst* scores) {
#pragma HLS dataflow
  stream<std::uint32_t> places("places");
  stream<Burst> exponents("exponents");
  stream<Burst> bursts("bursts");
  stream<Burst> pieces("pieces");
  stream<StoredRow> rows("rows");
  stream<Word<KeyInteger>> words("words");
  stream<PerRow<Score>> sums("sums");
#pragma HLS stream variable = places depth = 4
#pragma HLS stream variable = exponents depth = 4
#pragma HLS stream variable = bursts depth = 64
#pragma HLS stream variable = words depth = 8
  read_list(pages, page_count, places);
  read_pages(memory, places, page_count, exponents_at, exponents, rows_at, bursts);
  cut_rows(bursts, page_count, keys, pieces);
  join_rows(pieces, page_count, keys, rows);
  decode_rows<AsKey>(rows, exponents, page_count, keys, key_exponent, words);
  dot_products(words, query, page_count, keys.channels, sums);
  write_scores(sums, page_count, scores);
}

}  // namespace

extern "C" void nearkv_score(const Burst* memory, const std::uint32_t* pages, int page_count,
                             ArrayPlace exponents_at, ArrayPlace rows_at, RowShape keys,
                             const Burst* query, int group, int key_exponent, Burst* scores) {
#pragma HLS interface mode = m_axi port = memory bundle = pages max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = pages bundle = lists
#pragma HLS interface mode = m_axi port = query bundle = lists
#pragma HLS interface mode = m_axi port = scores bundle = results
  QueryInteger integers[kRows][kMaxChannels];
#pragma HLS array_partition variable = integers complete dim = 1
#pragma HLS array_partition variable = integers cyclic factor = 32 dim = 2
  PerRow<int> exponents;
  load_query(query, group, keys.channels, integers, &exponents);
  score_pages(memory, pages, page_count, exponents_at, rows_at, keys, integers, key_exponent,
              scores);
}

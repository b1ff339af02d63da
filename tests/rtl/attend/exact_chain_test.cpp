// Attention of one row group over pages, from bytes to outputs: decoders and exact stage in a
// chain, the model's logits and weights between them, against the model's softmax. Queries, keys
// and values are of one dimension.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "Vnkv_exact_chain_bench.h"
#include "attend/softmax_at.hpp"
#include "delta4.hpp"
#include "element.hpp"
#include "logit.hpp"
#include "nkv_abi.h"
#include "number.hpp"
#include "query.hpp"
#include "simulation.hpp"
#include "softmax.hpp"
#include "support/elements.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kTokens = NKV_PAGE_TOKENS;

// One tensor of a page, as the page stores it and as integers.
struct Tensor {
  std::uint8_t form;
  std::vector<std::byte> rows;
  std::vector<std::uint8_t> exponents;
  std::vector<std::vector<std::int32_t>> integers;
};

struct Chain : Simulation<Vnkv_exact_chain_bench> {
  Chain(unsigned dimension, int key_top, int value_top)
      : dim(dimension), key_exponent(key_top), value_exponent(value_top) {
    (*this)->format_used_dim_i = (*this)->format_stored_dim_i = static_cast<std::uint8_t>(dim);
    reset();
    (*this)->value_clear_i = 1;
    tick();
    (*this)->value_clear_i = 0;
  }

  void load_query(const std::vector<std::byte>& bytes, unsigned group) {
    (*this)->group_i = static_cast<std::uint8_t>(group);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    for (size_t at = 0; !(*this)->done_o;) {
      (*this)->query_burst_valid_i = at < bytes.size();
      if (at < bytes.size()) load((*this)->query_burst_i.data(), bytes, at);
      settle();
      const bool is_taken = (*this)->query_burst_valid_i && (*this)->query_burst_ready_o;
      tick();
      if (is_taken) at += NKV_BURST_BYTES;
      ASSERT_LT(cycles(), 10000U);
    }
    (*this)->query_burst_valid_i = 0;
    tick();
  }

  // All rows of a tensor; scores, by token, if they are keys.
  std::vector<std::array<std::int64_t, kRows>> stream(
      const Tensor& tensor, bool values,
      const std::vector<std::array<model::Weight, kRows>>& weights) {
    begin(tensor, values);
    std::vector<std::array<std::int64_t, kRows>> scores(values ? 0 : kTokens);
    const unsigned row_bytes = nkv_row_bytes(tensor.form, NKV_DTYPE_BF16, dim);
    unsigned token = 0;
    size_t at = 0;
    unsigned received = 0;
    for (unsigned i = 0; i < 3000 && (received < kTokens || !(*this)->idle_o); ++i) {
      const unsigned start = token * row_bytes;
      (*this)->row_valid_i = token < kTokens;
      (*this)->row_tag_i = static_cast<std::uint8_t>(token);
      (*this)->row_start_i = static_cast<std::uint8_t>(start % NKV_BURST_BYTES / 8);
      (*this)->row_shared_i = start % NKV_BURST_BYTES != 0;
      (*this)->burst_valid_i = at < tensor.rows.size();
      if (at < tensor.rows.size()) load((*this)->burst_i.data(), tensor.rows, at);
      settle();
      if ((*this)->value_valid_o) {
        present(weights[(*this)->value_tag_o]);
        received = (*this)->value_tag_o + 1U;
      }
      const bool row_taken = (*this)->row_valid_i && (*this)->row_ready_o;
      const bool burst_taken = (*this)->burst_valid_i && (*this)->burst_ready_o;
      tick();
      token += row_taken ? 1 : 0;
      at += burst_taken ? NKV_BURST_BYTES : 0;
      if ((*this)->score_valid_o) {
        for (unsigned row = 0; row < kRows; ++row) {
          scores[(*this)->score_tag_o][row] =
              static_cast<std::int64_t>((*this)->score_o[row] << 4) >> 4;
        }
        received = (*this)->score_tag_o + 1U;
      }
    }
    EXPECT_EQ(received, kTokens);
    wait_until_idle();
    return scores;
  }

  void raise(const std::array<std::int64_t, kRows>& distances) {
    (*this)->value_raise_valid_i = 1;
    for (unsigned row = 0; row < kRows; ++row) {
      (*this)->value_raise_i[row] =
          static_cast<std::uint8_t>(std::min<std::int64_t>(distances[row], 63));
    }
    tick();
    (*this)->value_raise_valid_i = 0;
    wait_until_idle();
  }

  void swap() {
    (*this)->value_swap_i = 1;
    tick();
    (*this)->value_swap_i = 0;
  }

  std::int64_t acc(unsigned row, unsigned channel) {
    EXPECT_TRUE((*this)->value_read_ready_o);
    (*this)->value_read_valid_i = 1;
    (*this)->value_read_row_i = static_cast<std::uint8_t>(row);
    (*this)->value_read_channel_i = static_cast<std::uint8_t>(channel);
    tick();
    (*this)->value_read_valid_i = 0;
    ticks(2);
    EXPECT_TRUE((*this)->value_acc_valid_o);
    return static_cast<std::int64_t>((*this)->value_acc_o);
  }

  unsigned dim;
  int key_exponent;
  int value_exponent;

 private:
  static void load(std::uint32_t* burst, const std::vector<std::byte>& bytes, size_t at) {
    std::memcpy(burst, bytes.data() + at, std::min<size_t>(NKV_BURST_BYTES, bytes.size() - at));
  }

  void begin(const Tensor& tensor, bool values) {
    (*this)->format_form_i = tensor.form;
    (*this)->format_values_i = values;
    (*this)->format_list_exponent_i =
        static_cast<std::uint8_t>(values ? value_exponent : key_exponent);
    (*this)->exponents_valid_i = tensor.form == NKV_ROW_FORM_DELTA4;
    for (size_t at = 0; at < tensor.exponents.size(); at += NKV_BURST_BYTES) {
      (*this)->exponents_burst_i = at != 0;
      std::memcpy((*this)->exponents_i.data(), tensor.exponents.data() + at,
                  std::min<size_t>(NKV_BURST_BYTES, tensor.exponents.size() - at));
      tick();
    }
    (*this)->exponents_valid_i = 0;
    tick();
  }

  void present(const std::array<model::Weight, kRows>& weights) {
    for (unsigned row = 0; row < kRows; ++row) {
      const bool is_zero = weights[row].is_zero();
      (*this)->value_weight_i[row] =
          is_zero ? 0 : static_cast<std::uint32_t>(weights[row].mantissa);
      (*this)->value_shift_i[row] = is_zero ? 0 : static_cast<std::uint8_t>(weights[row].shift);
      (*this)->value_units_i[row] = static_cast<std::uint64_t>(weights[row].units());
    }
  }

  void wait_until_idle() {
    ASSERT_TRUE(tick_until([this] { return (*this)->value_idle_o != 0; }, 100));
  }
};

std::vector<std::uint32_t> random_patterns(test::Random& random, size_t count) {
  std::vector<std::uint32_t> patterns(count);
  for (std::uint32_t& pattern : patterns) {
    // Exponents 118 to 131, so that DELTA4 holds them.
    pattern = static_cast<std::uint32_t>((random() & 0x807f) | (118 + random() % 14) << 7);
  }
  return patterns;
}

Tensor random_tensor(test::Random& random, std::uint8_t form, unsigned dim, int top, bool values) {
  const auto patterns = random_patterns(random, size_t{kTokens} * dim);
  Tensor tensor{.form = form, .rows = {}, .exponents = {}, .integers = {}};
  if (form == NKV_ROW_FORM_DELTA4) {
    const std::vector<std::uint16_t> bf16(patterns.begin(), patterns.end());
    const auto encoded = model::encode_delta4(bf16, dim);
    EXPECT_TRUE(encoded.has_value());
    tensor.rows = encoded->rows;
    tensor.exponents = encoded->exponents;
  } else {
    tensor.rows = test::to_bytes(NKV_DTYPE_BF16, patterns);
  }
  for (unsigned token = 0; token < kTokens; ++token) {
    std::vector<std::int32_t> row;
    for (unsigned channel = 0; channel < dim; ++channel) {
      const auto number = model::decode_binary32(patterns[token * dim + channel] << 16);
      row.push_back(values ? model::value_integer(number, top) : model::key_integer(number, top));
    }
    tensor.integers.push_back(row);
  }
  return tensor;
}

void attend(std::uint8_t form, unsigned dim, unsigned group) {
  SCOPED_TRACE(testing::Message() << "form " << unsigned{form} << " dim " << dim);
  test::Random random = test::case_random(dim + form);
  Chain chain(dim, 131, 132);
  const auto query_bytes =
      test::to_bytes(NKV_DTYPE_BF16, random_patterns(random, size_t{group} * dim));
  model::Query query;
  ASSERT_TRUE(model::Query::decode(query_bytes, NKV_DTYPE_BF16, group, dim, &query).ok());
  chain.load_query(query_bytes, group);

  const model::LogitScale scale(0.1f, 0.0f, chain.key_exponent);
  std::vector<model::RowSoftmax> softmax(group, model::RowSoftmax(dim));
  for (unsigned page = 0; page < 4; ++page) {
    const Tensor keys = random_tensor(random, form, dim, chain.key_exponent, false);
    const Tensor values = random_tensor(random, form, dim, chain.value_exponent, true);
    const auto scores = chain.stream(keys, false, {});
    std::vector<std::array<model::Weight, kRows>> weights(kTokens);
    for (auto& row : weights) row.fill({.mantissa = 1 << 17, .shift = 1000});
    std::array<std::int64_t, kRows> distances{};
    for (unsigned row = 0; row < group; ++row) {
      std::vector<std::int64_t> logits;
      for (unsigned token = 0; token < kTokens; ++token) {
        ASSERT_EQ(scores[token][row], model::exact_score(query.row(row), keys.integers[token]));
        logits.push_back(scale.logit(scores[token][row], query.exponent(row)));
      }
      const std::int64_t before = softmax[row].reference();
      softmax[row].raise_reference(
          model::integer_part(*std::max_element(logits.begin(), logits.end())));
      distances[row] = softmax[row].reference() - before;
      for (unsigned token = 0; token < kTokens; ++token) {
        weights[token][row] = model::weight_of(logits[token], softmax[row].reference());
        softmax[row].add(weights[token][row], values.integers[token]);
      }
    }
    chain.raise(distances);
    chain.stream(values, true, weights);
  }
  chain.swap();
  for (unsigned row = 0; row < group; ++row) {
    const auto expected = softmax[row].output(chain.value_exponent);
    const auto z = static_cast<std::int64_t>(chain->value_z_o[row]);
    for (unsigned channel = 0; channel < dim; ++channel) {
      const float output =
          softmax_at(0, z, chain.acc(row, channel)).output(chain.value_exponent)[0];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(output),
                std::bit_cast<std::uint32_t>(expected[channel]))
          << "row " << row << " channel " << channel;
    }
  }
}

TEST(ExactChainTest, RawRows) {
  for (unsigned dim = 16; dim <= 128; dim += 16) attend(NKV_ROW_FORM_RAW, dim, dim / 16);
}

TEST(ExactChainTest, Delta4Rows) {
  for (unsigned dim = 16; dim <= 128; dim += 16) attend(NKV_ROW_FORM_DELTA4, dim, dim / 16);
}

}  // namespace
}  // namespace nearkv::rtl_test

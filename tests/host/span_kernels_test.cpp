// Every kernel of a span that this machine has, beside the portable one: the one that is chosen
// here leaves others untested.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "attend/span.hpp"
#include "nkv_abi.h"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Bf16 = std::uint16_t;

constexpr std::size_t kBlockTokens = kSpanTokens;
constexpr Bf16 kNan = 0x7FC0;

Bf16 draw(Random* random) {
  const float number = std::normal_distribution<float>()(*random);
  return static_cast<Bf16>(std::bit_cast<std::uint32_t>(number) >> 16);
}

/// A block of one KV head with tokens [token, token + count), of which `seen` are numbers and all
/// else is NaN.
class Block {
 public:
  Block(const SpanShape& shape, const Span& span, Random* random)
      : shape_(shape),
        keys_(kBlockTokens * shape.key_dim, kNan),
        values_(kBlockTokens * shape.value_dim, kNan) {
    for (std::size_t t = 0; t < span.count; ++t) {
      if (!span.sees(t)) continue;
      for (std::size_t c = 0; c < shape.key_dim; ++c) {
        keys_[key_at(span.token + t, c)] = draw(random);
      }
      for (std::size_t c = 0; c < shape.value_dim; ++c) {
        values_[value_at(span.token + t, c)] = draw(random);
      }
    }
  }

  [[nodiscard]] const std::byte* keys() const {
    return reinterpret_cast<const std::byte*>(keys_.data());
  }
  [[nodiscard]] const std::byte* values() const {
    return reinterpret_cast<const std::byte*>(values_.data());
  }

 private:
  [[nodiscard]] std::size_t key_at(std::size_t token, std::size_t channel) const {
    switch (shape_.layout) {
      case BlockLayout::kRows:
        return token * shape_.key_dim + channel;
      case BlockLayout::kChannelMajor:
        return channel * kBlockTokens + token;
      case BlockLayout::kTiles:
        break;
    }
    return token / 16 * 16 * shape_.key_dim + channel / 2 * 32 + token % 16 * 2 + channel % 2;
  }
  [[nodiscard]] std::size_t value_at(std::size_t token, std::size_t channel) const {
    if (shape_.layout != BlockLayout::kTiles) return token * shape_.value_dim + channel;
    return channel / 16 * 16 * kBlockTokens + token / 2 * 32 + channel % 16 * 2 + token % 2;
  }

  SpanShape shape_;
  std::vector<Bf16> keys_;
  std::vector<Bf16> values_;
};

struct Sums {
  std::vector<float> maximum;
  std::vector<float> weight;
  std::vector<float> values;

  Sums(std::size_t rows, std::size_t dim)
      : maximum(rows, -std::numeric_limits<float>::infinity()), weight(rows), values(rows * dim) {}
  [[nodiscard]] RowSums view() { return {maximum.data(), weight.data(), values.data()}; }
};

struct Kernels {
  const char* name;
  AttendSpan (*attend)(const SpanShape& shape);
  ScoreSpan (*score)(const SpanShape& shape);
};

class SpanKernels : public testing::TestWithParam<std::tuple<Kernels, BlockLayout, std::size_t>> {
 protected:
  static SpanShape shape_of(std::size_t dim) {
    SpanShape shape;
    shape.dtype = NKV_DTYPE_BF16;
    shape.layout = std::get<1>(GetParam());
    shape.block_tokens = kBlockTokens;
    shape.key_dim = dim;
    shape.value_dim = dim;
    shape.value_stride = dim;
    return shape;
  }
  static std::size_t rows() { return std::get<2>(GetParam()); }
};

TEST_P(SpanKernels, SumTwoSpansAsThePortableOneDoes) {
  const Kernels kernels = std::get<0>(GetParam());
  Random random = case_random(0);
  SpanScope scope;  // Of all shapes and numbers of rows: a kernel is to see that they change.
  for (const std::size_t dim : {32U, 64U, 96U, 128U, 256U}) {
    const SpanShape shape = shape_of(dim);
    const AttendSpan attend = kernels.attend(shape);
    if (attend == nullptr) GTEST_SKIP() << "this machine or build has no " << kernels.name;
    std::vector<Bf16> query(rows() * dim);
    for (Bf16& number : query) number = draw(&random);
    for (const float soft_cap : {0.0F, 5.0F}) {
      for (const std::size_t count : {16U, 32U, 48U, 64U}) {
        SCOPED_TRACE("dim " + std::to_string(dim) + ", tokens " + std::to_string(count));
        const SpanQuery asked{reinterpret_cast<const std::byte*>(query.data()), rows(), 0.2F,
                              soft_cap};
        const std::uint64_t all = ~std::uint64_t{0} >> (kSpanTokens - count);
        Span spans[2] = {{nullptr, nullptr, kBlockTokens - count, count, all},
                         {nullptr, nullptr, 0, count, (random() & all) | 1U}};
        const Block blocks[2] = {{shape, spans[0], &random}, {shape, spans[1], &random}};
        Sums own(rows(), dim);
        Sums portable(rows(), dim);
        for (std::size_t i = 0; i < 2; ++i) {
          spans[i].keys = blocks[i].keys();
          spans[i].values = blocks[i].values();
        }
        for (std::size_t i = 0; i < 2; ++i) {
          const Span* const next = i == 0 ? &spans[1] : nullptr;
          SpanQuery fewer = asked;
          fewer.count = (rows() + 1) / 2;
          Sums others(rows(), dim);
          attend(shape, fewer, spans[i], next, others.view(), &scope);
          attend(shape, asked, spans[i], next, own.view(), &scope);
          attend_span_portable(shape, asked, spans[i], next, portable.view(), &scope);
        }
        order_values_bf16(shape, rows(), own.values.data());
        for (std::size_t row = 0; row < rows(); ++row) {
          ASSERT_NEAR(own.maximum[row], portable.maximum[row], 1e-4);
          ASSERT_NEAR(own.weight[row], portable.weight[row], 1e-4 * portable.weight[row]);
          for (std::size_t c = 0; c < dim; ++c) {
            ASSERT_NEAR(own.values[row * dim + c], portable.values[row * dim + c],
                        1e-4 * portable.weight[row])
                << "row " << row << ", channel " << c;
          }
        }
      }
    }
  }
}

TEST_P(SpanKernels, ScoreTokensThatAreNotSeen) {
  const Kernels kernels = std::get<0>(GetParam());
  constexpr std::size_t kDim = 96;
  const SpanShape shape = shape_of(kDim);
  const ScoreSpan score = kernels.score(shape);
  if (score == nullptr) GTEST_SKIP() << "no scores by " << kernels.name << " in this layout";
  Random random = case_random(0);
  std::vector<Bf16> query(rows() * kDim);
  for (Bf16& number : query) number = draw(&random);
  Span span{nullptr, nullptr, 0, kSpanTokens, ~std::uint64_t{0}};
  const Block block(shape, span, &random);
  span.keys = block.keys();
  span.seen = 0;
  alignas(64) float scores[kSpanRows * kSpanTokens];
  SpanScope scope;
  score(shape, {reinterpret_cast<const std::byte*>(query.data()), rows(), 1, 0}, span, nullptr,
        scores, &scope);
  const auto number = [](Bf16 bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); };
  const auto* const keys = reinterpret_cast<const Bf16*>(block.keys());
  for (std::size_t row = 0; row < rows(); ++row) {
    for (std::size_t t = 0; t < kSpanTokens; ++t) {
      double sum = 0;
      for (std::size_t c = 0; c < kDim; ++c) {
        sum += double{number(query[row * kDim + c])} * number(keys[t * kDim + c]);
      }
      ASSERT_NEAR(scores[row * kSpanTokens + t], sum, 1e-3) << "row " << row << ", token " << t;
    }
  }
}

constexpr Kernels kKernels[] = {{"amx", attend_span_amx, score_span_amx},
                                {"avx512", attend_span_avx512, score_span_avx512}};

std::string case_of(const testing::TestParamInfo<SpanKernels::ParamType>& about) {
  static constexpr const char* kLayouts[] = {"rows", "channels", "tiles"};
  const auto& [kernels, layout, rows] = about.param;
  return std::string(kernels.name) + "_" + kLayouts[static_cast<std::size_t>(layout)] + "_" +
         std::to_string(rows);
}

INSTANTIATE_TEST_SUITE_P(All, SpanKernels,
                         testing::Combine(testing::ValuesIn(kKernels),
                                          testing::Values(BlockLayout::kRows,
                                                          BlockLayout::kChannelMajor,
                                                          BlockLayout::kTiles),
                                          testing::Values(1, 3, 4, 8, 9, 16)),
                         case_of);

}  // namespace
}  // namespace nearkv::test

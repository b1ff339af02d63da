// STATISTICAL finds what FULL finds, bit for bit and whatever the data look like, if its radius
// covers whole cells, as the greatest z does of rows of up to 84 channels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

constexpr int kCases = 2400;

struct Shape {
  uint32_t head_dim;
  uint32_t tokens;
  uint32_t group;
  uint8_t dtype;
  PageForm form;
};

Shape random_shape(Random& random) {
  constexpr std::array<uint32_t, 5> kDims{16, 32, 48, 64, 80};
  constexpr std::array<uint8_t, 5> kTypes{NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                          NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8};
  const uint32_t dim = kDims[pick(random, 0, 4)];
  const uint32_t pages = pick(random, 1, 12);
  const bool is_bf16 = pick(random, 0, 1) == 0;
  const uint8_t dtype = is_bf16 ? uint8_t{NKV_DTYPE_BF16} : kTypes[pick(random, 0, 4)];
  return {.head_dim = dim,
          .tokens = pages * NKV_PAGE_TOKENS,
          .group = pick(random, 1, 4),
          .dtype = dtype,
          .form = {.k_form = dtype == NKV_DTYPE_BF16 && pick(random, 0, 1) == 0
                                 ? uint8_t{NKV_ROW_FORM_DELTA4}
                                 : uint8_t{NKV_ROW_FORM_RAW},
                   .v_form = NKV_ROW_FORM_NONE}};
}

double size_of(uint8_t dtype, Random& random) {
  switch (dtype) {
    case NKV_DTYPE_BF16:
      return std::exp2(uniform(random, -60, 60));
    case NKV_DTYPE_INT8:
      return uniform(random, 1.0, 60.0);
    default:
      return std::exp2(uniform(random, -4, 4));
  }
}

// Keys of several kinds, mixed: biased channels, channels and pages of other sizes, outliers,
// repeated rows, constant and empty channels.
Rows random_keys(const Shape& shape, Random& random) {
  const double size = size_of(shape.dtype, random);
  const uint32_t kind = pick(random, 0, 7);
  const double bias = kind == 1 ? 20.0 : 0.0;
  const double channel_spread = kind == 2 ? 10.0 : 0.0;
  const double page_spread = kind == 3 ? 10.0 : 0.0;
  std::vector<double> channel_size;
  std::vector<double> channel_bias;
  for (uint32_t c = 0; c < shape.head_dim; ++c) {
    channel_size.push_back(std::exp2(uniform(random, -channel_spread, channel_spread)));
    channel_bias.push_back(bias * normal(random));
    if (kind == 6 && c % 3 == 0) channel_size.back() = 0.0;
  }
  double page_size = 1.0;
  Rows keys = make_rows(shape.dtype, shape.tokens, shape.head_dim, [&](uint32_t t, uint32_t c) {
    if (c == 0 && t % NKV_PAGE_TOKENS == 0) {
      page_size = std::exp2(uniform(random, -page_spread, page_spread));
    }
    const double outlier = kind == 4 && t % 97 == 5 ? 50.0 : 1.0;
    const double coarse = std::round(2.0 * normal(random));  // Many exact ties.
    const double number = kind == 7 ? coarse : normal(random);
    return size * page_size * outlier * channel_size[c] * (number + channel_bias[c]);
  });
  if (kind == 5) {
    for (uint32_t t = 0; t < shape.tokens; ++t) {
      const uint32_t source = pick(random, 0, t);
      std::copy_n(keys.patterns.begin() + source * shape.head_dim, shape.head_dim,
                  keys.patterns.begin() + t * shape.head_dim);
    }
  }
  return keys;
}

// In the shape's form, or RAW where DELTA4 has too many exceptions.
Sequence append_somehow(Device& device, const Rows& keys, PageForm form) {
  const uint64_t mark = device.mark();
  const Rows no_values{.dim = 0};
  try {
    return append(device, keys, no_values, form);
  } catch (const std::runtime_error&) {
    device.release(mark);
    form.k_form = NKV_ROW_FORM_RAW;
    return append(device, keys, no_values, form);
  }
}

TEST(TopkFuzz, WholeCellsGiveWhatFullGives) {
  Device device;
  Random random(20240601);
  double scanned = 0;
  double read = 0;
  for (int i = 0; i < kCases; ++i) {
    const uint64_t mark = device.mark();
    Shape shape = random_shape(random);
    const Rows keys = random_keys(shape, random);
    const double query_size = std::exp2(uniform(random, -30, 30));
    const Rows query = normal_rows(pick(random, 0, 1) == 0 ? NKV_DTYPE_BF16 : NKV_DTYPE_FP32,
                                   shape.group, shape.head_dim, query_size, random);
    const Sequence sequence = append_somehow(device, keys, shape.form);
    TopkOptions options;
    options.top_k = static_cast<uint16_t>(pick(random, 0, 9) == 0 ? pick(random, 100, 4096)
                                                                  : pick(random, 1, 64));
    options.tokens = pick(random, 1, shape.tokens);
    options.window = pick(random, 0, 2) == 0 ? pick(random, 1, shape.tokens) : 0;
    options.sinks = static_cast<uint8_t>(pick(random, 0, 10));
    options.z = 255;
    options.scale = static_cast<float>(std::exp2(uniform(random, -10, 10)));
    options.mode = NKV_SELECT_FULL;
    const auto full = topk(device, sequence, query, options);
    options.mode = NKV_SELECT_STATISTICAL;
    const auto statistical = topk(device, sequence, query, options);
    ASSERT_EQ(full.completion.status, NKV_STATUS_OK) << "case " << i;
    ASSERT_EQ(statistical.completion.status, NKV_STATUS_OK) << "case " << i;
    ASSERT_TRUE(full.has_clean_tail && statistical.has_clean_tail) << "case " << i;
    ASSERT_EQ(full.rows, statistical.rows) << "case " << i;
    scanned += full.completion.stream_bursts;
    read += statistical.completion.stream_bursts + statistical.completion.refine_bursts +
            statistical.completion.exact_bursts;
    device.release(mark);
  }
  std::printf("%d cases, STATISTICAL read %.2f of FULL's bytes\n", kCases, read / scanned);
}

}  // namespace
}  // namespace nearkv::test

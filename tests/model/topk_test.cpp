// TOPK's modes against each other and against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

constexpr std::array<uint8_t, 2> kByScore{NKV_SELECT_FULL, NKV_SELECT_STATISTICAL};

// Token ids by double-precision score, ties by index.
std::vector<uint32_t> ranked(const std::vector<double>& scores, size_t k) {
  std::vector<uint32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  ids.resize(std::min(k, ids.size()));
  return ids;
}

double dot(const Rows& a, size_t row_a, const Rows& b, size_t row_b) {
  double sum = 0;
  for (size_t c = 0; c < a.dim; ++c) sum += a.at(row_a, c) * b.at(row_b, c);
  return sum;
}

struct Shape {
  uint64_t seed = 0;
  uint32_t tokens = 0;
  uint32_t head_dim = 64;
  uint32_t queries = 2;
};

/// Normal keys and queries, and the keys in pages of a device, in DELTA4 and with codes.
struct Stored {
  /// `change`: made to the keys before they are appended.
  explicit Stored(const Shape& shape,
                  const std::function<void(Rows& keys, const Rows& query)>& change = {})
      : random(shape.seed),
        keys(normal_rows(NKV_DTYPE_BF16, shape.tokens, shape.head_dim, 1.0, random)),
        query(normal_rows(NKV_DTYPE_BF16, shape.queries, shape.head_dim, 1.0, random)) {
    if (change) change(keys, query);
    sequence = append_coded(device, keys, keys, PageForm{});
  }

  TopkResult find(const TopkOptions& options) { return topk(device, sequence, query, options); }

  Device device;
  Random random;
  Rows keys;
  Rows query;
  Sequence sequence;
};

TEST(TopkFull, RanksAsDoublePrecisionDoes) {
  Device device;
  Random random(1);
  for (const uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_INT8}) {
    const double size = dtype == NKV_DTYPE_INT8 ? 30.0 : 1.0;
    const Rows keys = normal_rows(dtype, 512, 80, size, random);
    const Rows query = normal_rows(NKV_DTYPE_BF16, 3, 80, 1.0, random);
    const Sequence sequence = append(device, keys, keys, kRawForm);
    const auto result = topk(device, sequence, query, {.top_k = 100, .scale = -0.25f});
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    EXPECT_EQ(result.completion.count, 300u);
    for (size_t row = 0; row < 3; ++row) {
      std::vector<double> scores;
      for (size_t token = 0; token < 512; ++token) scores.push_back(dot(query, row, keys, token));
      EXPECT_EQ(result.rows[row].ids, ranked(scores, 100));
      for (size_t i = 0; i < 100; ++i) {
        const double expected = -0.25 * scores[result.rows[row].ids[i]];
        EXPECT_NEAR(static_cast<double>(result.rows[row].scores[i]), expected,
                    std::abs(expected) * 0x1p-22);
      }
    }
  }
}

TEST(TopkFull, ExactTiesGoToTheLowestIndex) {
  Stored stored({.seed = 2, .tokens = 256, .queries = 1}, [](Rows& keys, const Rows&) {
    for (size_t i = 0; i < keys.patterns.size(); ++i) {
      keys.patterns[i] = keys.patterns[i % (4 * 64)];  // Four keys in turn.
    }
  });
  for (const uint8_t mode : kByScore) {
    const auto ids = stored.find({.mode = mode, .top_k = 100}).rows[0].ids;
    ASSERT_EQ(ids.size(), 100u);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(ids[i], ids[0] + 4 * i);
    for (size_t i = 64; i < 100; ++i) EXPECT_EQ(ids[i], ids[64] + 4 * (i - 64));
  }
}

TEST(Topk, MoreThanThereAreGivesAllOfThem) {
  Stored stored({.seed = 3, .tokens = 128});
  for (const uint8_t mode : kByScore) {
    const auto result = stored.find({.mode = mode, .top_k = 4096, .tokens = 100});
    EXPECT_EQ(result.completion.count, 200u);
    EXPECT_TRUE(result.has_clean_tail);
    auto ids = result.rows[1].ids;
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), 100u);
    for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(ids[i], i);
  }
}

TEST(Topk, ZeroLengthFindsNothingAndReadsNothing) {
  Stored stored({.seed = 4, .tokens = 64});
  for (const uint8_t mode : kByScore) {
    auto command = topk_command(stored.device, stored.sequence, stored.query, {.mode = mode});
    command.tokens = 0;
    command.page_list = ~uint64_t{7};
    const auto completion = stored.device.run(command);
    EXPECT_EQ(completion.status, NKV_STATUS_OK);
    EXPECT_EQ(completion.count, 0u);
    EXPECT_EQ(completion.stream_bursts, 0u);
    EXPECT_EQ(stored.device.read<uint32_t>(command.result, 1)[0], ~uint32_t{0});
  }
}

TEST(Topk, NonfiniteKeysAreNeverFound) {
  Stored stored({.seed = 5, .tokens = 256}, [](Rows& keys, const Rows&) {
    for (const size_t token : {3u, 70u, 71u}) keys.patterns[token * 64 + 1] = 0x7f80;
  });
  for (const uint8_t mode : kByScore) {
    const auto result = stored.find({.mode = mode, .top_k = 256});
    EXPECT_EQ(result.completion.flags, NKV_COMPLETION_FLAG_NONFINITE);
    EXPECT_EQ(result.rows[0].ids.size(), 253u);
    for (const uint32_t id : result.rows[0].ids) EXPECT_TRUE(id != 3 && id != 70 && id != 71);
  }
}

// Section 9, by hand: head_dim 128 in DELTA4, 8 pages, 4 rows.
TEST(Topk, CountsItsBytes) {
  Stored stored({.seed = 6, .tokens = 512, .head_dim = 128, .queries = 4});
  const auto full = stored.find({.mode = NKV_SELECT_FULL, .top_k = 1});
  // Per page: 2 header bursts, 2 of exponents, 64 rows of 192 bytes.
  EXPECT_EQ(full.completion.stream_bursts, 8u * (2 + 2 + 192));
  EXPECT_EQ(full.completion.exact_bursts, 0u);
  const auto result = stored.find({.mode = NKV_SELECT_STATISTICAL, .top_k = 256});
  // Per page: 1 header burst, 5 of summary, 16 of signs; once 2 of gains. 512 seeds: everything.
  EXPECT_EQ(result.completion.stream_bursts, 8u * (1 + 5 + 16) + 2);
  EXPECT_EQ(result.completion.refine_bursts, 0u);
  EXPECT_EQ(result.completion.exact_bursts, 8u * (2 + 192));
  EXPECT_EQ(result.completion.value_bursts, 0u);
  const auto some = stored.find({.mode = NKV_SELECT_STATISTICAL, .top_k = 4, .z = 255});
  EXPECT_GT(some.completion.refine_bursts, 0u);
  EXPECT_LT(some.completion.exact_bursts, 8u * (2 + 192));
}

TEST(Topk, StatisticalRecall) {
  Device device;
  double worst = 1.0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const uint64_t mark = device.mark();
    Random random(seed);
    const Rows keys = normal_rows(NKV_DTYPE_BF16, 4096, 128, 1.0, random);
    const Rows query = normal_rows(NKV_DTYPE_BF16, 4, 128, 1.0, random);
    const Sequence sequence = append_coded(device, keys, keys, PageForm{});
    const auto truth = topk(device, sequence, query, {.mode = NKV_SELECT_FULL, .top_k = 64});
    const auto found = topk(device, sequence, query, {.mode = NKV_SELECT_STATISTICAL, .top_k = 64});
    for (size_t row = 0; row < 4; ++row) {
      worst = std::min(worst, recall(found.rows[row], truth.rows[row]));
    }
    device.release(mark);
  }
  std::printf("STATISTICAL, z = 6, k = 64 of 4096: worst recall of 80 rows %.4f\n", worst);
  EXPECT_GE(worst, 0.98);
}

TEST(Topk, FewerDeviationsReadFewerBytes) {
  Stored stored({.seed = 8, .tokens = 4096, .head_dim = 128, .queries = 1});
  const auto bytes = [&](uint8_t z) {
    const auto c = stored.find({.mode = NKV_SELECT_STATISTICAL, .top_k = 16, .z = z}).completion;
    return c.stream_bursts + c.refine_bursts + c.exact_bursts;
  };
  EXPECT_EQ(bytes(0), bytes(96));
  EXPECT_LT(bytes(1), bytes(96));
  EXPECT_LT(bytes(96), bytes(255));
}

TEST(Indexer, ScoresAsDoublePrecisionDoes) {
  Device device;
  Random random(9);
  for (const uint8_t query_dtype : {NKV_DTYPE_FP8_E4M3, NKV_DTYPE_BF16}) {
    const Rows keys = normal_rows(NKV_DTYPE_FP8_E4M3, 2048, 128, 20.0, random);
    const Rows query = normal_rows(query_dtype, 64, 128, 20.0, random);
    std::vector<float> scales;
    for (uint32_t i = 0; i < 2048; ++i) {
      scales.push_back(static_cast<float>(uniform(random, 0.01, 0.2)));
    }
    TopkOptions options{.mode = NKV_SELECT_INDEXER, .top_k = 200, .scale = 0.5f};
    for (uint32_t i = 0; i < 64; ++i) {
      options.weights.push_back(static_cast<float>(normal(random)));
    }
    const Sequence sequence = append_scaled(device, keys, scales);
    const auto result = topk(device, sequence, query, options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    ASSERT_EQ(result.rows.size(), 1u);
    EXPECT_EQ(result.completion.count, 200u);
    std::vector<double> scores;
    for (size_t token = 0; token < 2048; ++token) {
      double sum = 0;
      for (size_t head = 0; head < 64; ++head) {
        sum += static_cast<double>(options.weights[head]) *
               std::max(0.0, dot(query, head, keys, token));
      }
      scores.push_back(static_cast<double>(scales[token]) * sum);
    }
    EXPECT_EQ(result.rows[0].ids, ranked(scores, 200));
    for (size_t i = 0; i < 200; ++i) {
      const double expected = 0.5 * scores[result.rows[0].ids[i]];
      EXPECT_NEAR(static_cast<double>(result.rows[0].scores[i]), expected,
                  std::abs(expected) * 0x1p-23);
    }
  }
}

TEST(Indexer, NeedsRawPagesAndFiniteWeights) {
  Device device;
  Random random(10);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 128, 64, 1.0, random);
  const Rows query = normal_rows(NKV_DTYPE_BF16, 2, 64, 1.0, random);
  TopkOptions options{.mode = NKV_SELECT_INDEXER, .weights = {1.0f, 2.0f}};
  const auto delta4 = topk(device, append(device, keys, keys), query, options).completion;
  EXPECT_EQ(delta4.status, NKV_STATUS_BAD_PAGE);
  const Sequence raw = append(device, keys, keys, kRawForm);
  EXPECT_EQ(topk(device, raw, query, options).completion.status, NKV_STATUS_OK);
  options.weights[1] = std::nanf("");
  const auto nan = topk(device, raw, query, options).completion;
  EXPECT_EQ(nan.status, NKV_STATUS_BAD_QUERY);
  EXPECT_EQ(nan.detail, 1u);
}

}  // namespace
}  // namespace nearkv::test

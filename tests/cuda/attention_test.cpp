// Decode attention and merge against double precision.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "cuda/gpu.hpp"
#include "support/elements.hpp"
#include "support/kv_data.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A window of random rows, and what a caller may ask of it.
struct Case {
  std::uint32_t batch = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t group = 1;
  std::uint32_t tokens = 0;
  std::uint32_t head_dim = 64;
  std::uint32_t value_dim = 64;
  std::uint32_t splits = 1;
  float soft_cap = 0;
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::vector<std::int32_t> first{};
  std::vector<std::int32_t> end{};
  std::uint32_t padding = 0;  ///< Elements between rows.
};

class AttendTest : public Gpu {
 protected:
  /// Rows of standard normal elements; what lies between them is NaN.
  std::span<std::byte> rows(const Case& what, std::size_t count, std::uint32_t dim) {
    const std::size_t pitch = dim + what.padding;
    std::vector<std::uint32_t> patterns(count * pitch, 0x7FC0);
    if (what.dtype == NKV_DTYPE_FP32) std::ranges::fill(patterns, 0x7FC00000U);
    if (what.dtype == NKV_DTYPE_FP16) std::ranges::fill(patterns, 0x7E00U);
    std::normal_distribution<double> normal;
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t c = 0; c < dim; ++c) {
        patterns[row * pitch + c] = encode(what.dtype, normal(random_));
      }
    }
    return stored(to_bytes(what.dtype, patterns));
  }

  static std::vector<double> numbers(const Case& what, std::span<const std::byte> bytes,
                                     std::size_t first, std::size_t count, std::uint32_t dim) {
    const std::vector<std::uint32_t> patterns = from_bytes(what.dtype, bytes);
    std::vector<double> out;
    for (std::size_t row = first; row < first + count; ++row) {
      for (std::size_t c = 0; c < dim; ++c) {
        out.push_back(decode(what.dtype, patterns[row * (dim + what.padding) + c]));
      }
    }
    return out;
  }

  static nearkv_cuda_strides strides(const Case& what, std::uint32_t rows, std::uint32_t dim) {
    const std::int64_t pitch = dim + what.padding;
    return {pitch * rows * what.kv_heads, pitch * rows, pitch};
  }

  nearkv_cuda_attend_args arguments(const Case& what) {
    const std::size_t heads = std::size_t{what.batch} * what.kv_heads;
    query_ = rows(what, heads * what.group, what.head_dim);
    key_ = rows(what, heads * what.tokens, what.head_dim);
    value_ = rows(what, heads * what.tokens, what.value_dim);
    output_ = room<float>(what.splits * heads * what.group * what.value_dim);
    lse_ = room<float>(what.splits * heads * what.group);
    nearkv_cuda_attend_args work{};
    work.query = query_.data();
    work.key = key_.data();
    work.value = value_.data();
    if (!what.first.empty()) work.first = stored(what.first).data();
    if (!what.end.empty()) work.end = stored(what.end).data();
    work.output = output_.data();
    work.lse = lse_.data();
    work.query_strides = strides(what, what.group, what.head_dim);
    work.key_strides = strides(what, what.tokens, what.head_dim);
    work.value_strides = strides(what, what.tokens, what.value_dim);
    work.batch = what.batch;
    work.kv_heads = what.kv_heads;
    work.group = what.group;
    work.tokens = what.tokens;
    work.head_dim = what.head_dim;
    work.value_dim = what.value_dim;
    work.splits = what.splits;
    work.scale = 1 / std::sqrt(static_cast<float>(what.head_dim));
    work.soft_cap = what.soft_cap;
    work.dtype = what.dtype;
    return work;
  }

  /// Merges the parts where there are several, and compares with double precision.
  void check(const Case& what) {
    const nearkv_cuda_attend_args work = arguments(what);
    ASSERT_EQ(nearkv_cuda_attend(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
    const std::size_t heads = std::size_t{what.batch} * what.kv_heads;
    const std::size_t all_rows = heads * what.group;
    const std::span<float> output = room<float>(all_rows * what.value_dim);
    const std::span<float> lse = room<float>(all_rows);
    nearkv_cuda_merge_args merge{};
    merge.source[0] = {output_.data(), lse_.data(), what.splits};
    merge.output = output.data();
    merge.lse = lse.data();
    merge.rows = all_rows;
    merge.value_dim = what.value_dim;
    merge.sources = 1;
    ASSERT_EQ(nearkv_cuda_merge(gpu_, &merge, nullptr), NKV_STATUS_OK) << error();
    synchronize();

    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t b = head / what.kv_heads;
      const int tokens = static_cast<int>(what.tokens);
      const int first = std::max(what.first.empty() ? 0 : what.first[b], 0);
      const int end = std::min(what.end.empty() ? tokens : what.end[b], tokens);
      AttentionOptions options;
      options.scale = work.scale;
      options.soft_cap = what.soft_cap;
      options.tokens = end > first ? static_cast<std::size_t>(end) : 0;
      options.window = end > first ? static_cast<std::size_t>(end - first) : 0;
      const KvNumbers data{what.tokens, what.head_dim, what.value_dim,
                           numbers(what, key_, head * what.tokens, what.tokens, what.head_dim),
                           numbers(what, value_, head * what.tokens, what.tokens, what.value_dim)};
      for (std::size_t g = 0; g < what.group; ++g) {
        const std::size_t row = head * what.group + g;
        const std::vector<double> query = numbers(what, query_, row, 1, what.head_dim);
        const Attention exact = reference_attention(data, query, options);
        const auto own =
            std::span<const float>(output).subspan(row * what.value_dim, what.value_dim);
        if (end <= first) {
          EXPECT_EQ(lse[row], -kInfinity);
          EXPECT_TRUE(std::ranges::all_of(own, [](float o) { return o == 0; }));
          continue;
        }
        EXPECT_LT(max_norm_error(own, exact.output), 2e-6) << "row " << row;
        EXPECT_NEAR(lse[row], exact.lse, 2e-6 * (1 + std::abs(exact.lse))) << "row " << row;
      }
    }
  }

  std::mt19937 random_{1};
  std::span<std::byte> query_, key_, value_;
  std::span<float> output_, lse_;
};

TEST_F(AttendTest, EveryWidthOfRows) {
  for (const std::uint32_t dim : {16U, 64U, 80U, 128U, 320U, 576U}) {
    SCOPED_TRACE(dim);
    check({.group = 3, .tokens = 130, .head_dim = dim, .value_dim = dim});
  }
  check({.group = 2, .tokens = 70, .head_dim = 576, .value_dim = 512});
  check({.group = 2, .tokens = 70, .head_dim = 64, .value_dim = 256});
}

TEST_F(AttendTest, EverySizeOfGroup) {
  for (const std::uint32_t group : {1U, 2U, 4U, 5U, 8U, 11U}) {
    SCOPED_TRACE(group);
    check({.batch = 2, .kv_heads = 2, .group = group, .tokens = 70});
  }
}

TEST_F(AttendTest, EveryElementType) {
  for (const std::uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32}) {
    check({.group = 4, .tokens = 100, .dtype = dtype});
  }
}

TEST_F(AttendTest, TokensAtTheEdgesOfTiles) {
  for (const std::uint32_t tokens : {1U, 63U, 64U, 65U, 129U}) check({.tokens = tokens});
}

TEST_F(AttendTest, PartsThatMayBeEmpty) {
  for (const std::uint32_t splits : {2U, 3U, 9U})
    check({.group = 2, .tokens = 300, .splits = splits});
}

TEST_F(AttendTest, EachSequenceSeesItsOwnTokens) {
  check({.batch = 5,
         .kv_heads = 1,
         .group = 2,
         .tokens = 200,
         .splits = 2,
         .first = {0, 17, 199, 64, -5},
         .end = {200, 100, 200, 64, 1000}});
}

TEST_F(AttendTest, NothingToSee) { check({.batch = 2, .group = 3, .tokens = 0, .splits = 3}); }

TEST_F(AttendTest, SoftCap) { check({.group = 2, .tokens = 100, .soft_cap = 1.5F}); }

TEST_F(AttendTest, RowsApart) {
  check({.batch = 2, .kv_heads = 2, .group = 2, .tokens = 70, .padding = 8});
}

TEST_F(AttendTest, LogitsOfAnySize) {
  nearkv_cuda_attend_args work = arguments({.group = 1, .tokens = 100});
  work.scale = 1e4F;  // Weights of all but the best underflow.
  ASSERT_EQ(nearkv_cuda_attend(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
  synchronize();
  EXPECT_TRUE(std::ranges::all_of(output_, [](float o) { return std::isfinite(o); }));
  EXPECT_TRUE(std::isfinite(lse_[0]));
}

TEST_F(AttendTest, RefusesWhatNoKernelTakes) {
  const nearkv_cuda_attend_args good = arguments({.group = 2, .tokens = 10});
  const auto refused = [&](const std::function<void(nearkv_cuda_attend_args*)>& spoil) {
    nearkv_cuda_attend_args work = good;
    spoil(&work);
    EXPECT_EQ(nearkv_cuda_attend(gpu_, &work, nullptr), NKV_STATUS_BAD_ARGUMENT);
    const std::string why = error();
    EXPECT_NE(why, "");
    return why;
  };
  using Work = nearkv_cuda_attend_args;
  const auto behind = [](const void* place, int bytes) {
    return static_cast<const void*>(static_cast<const std::byte*>(place) + bytes);
  };
  EXPECT_NE(refused([&](Work* w) { w->query = behind(w->query, 2); }).find("query"),
            std::string::npos);
  EXPECT_NE(refused([&](Work* w) { w->key = behind(w->key, 8); }).find("16"), std::string::npos);
  EXPECT_NE(refused([](Work* w) { w->value = nullptr; }).find("value is null"), std::string::npos);
  refused([](Work* w) { w->output = nullptr; });
  refused([](Work* w) { w->key_strides.row = 65; });
  refused([](Work* w) { w->value_strides.batch = 4; });
  for (const std::uint32_t dim : {0U, 8U, 24U, 592U}) {
    refused([&](Work* w) { w->head_dim = dim; });
    refused([&](Work* w) { w->value_dim = dim; });
  }
  refused([](Work* w) { w->dtype = NKV_DTYPE_INT8; });
  refused([](Work* w) { w->splits = 0; });
  refused([](Work* w) { w->scale = std::numeric_limits<float>::quiet_NaN(); });
  refused([](Work* w) { w->soft_cap = -1; });
  EXPECT_EQ(nearkv_cuda_attend(gpu_, &good, nullptr), NKV_STATUS_OK) << error();
}

TEST_F(AttendTest, WideRowsAreTakenFewerAtATime) {
  // Eight of them at once are more than the memory of a block of the smallest GPUs.
  check({.group = 8, .tokens = 70, .head_dim = 384, .value_dim = 64, .dtype = NKV_DTYPE_FP32});
}

TEST_F(AttendTest, TellsTheWidestRowsThatItTakes) {
  EXPECT_EQ(nearkv_cuda_attend_dim(gpu_, NKV_DTYPE_BF16), std::uint32_t{NKV_MAX_HEAD_DIM});
  EXPECT_EQ(nearkv_cuda_attend_dim(gpu_, NKV_DTYPE_FP16), std::uint32_t{NKV_MAX_HEAD_DIM});
  const std::uint32_t widest = nearkv_cuda_attend_dim(gpu_, NKV_DTYPE_FP32);
  ASSERT_GE(widest, 384U);
  for (const std::uint32_t dim : {widest, widest + 16}) {
    if (dim > NKV_MAX_HEAD_DIM) break;
    const nearkv_cuda_attend_args work = arguments(
        {.group = 3, .tokens = 2, .head_dim = dim, .value_dim = 16, .dtype = NKV_DTYPE_FP32});
    EXPECT_EQ(nearkv_cuda_attend(gpu_, &work, nullptr),
              dim == widest ? NKV_STATUS_OK : NKV_STATUS_UNSUPPORTED);
  }
}

TEST_F(AttendTest, ABlocksMemoryHasAnEnd) {
  if (!is_emulated()) GTEST_SKIP() << "how much there is differs between GPUs";
  const nearkv_cuda_attend_args work = arguments(
      {.group = 8, .tokens = 1, .head_dim = 576, .value_dim = 576, .dtype = NKV_DTYPE_FP32});
  EXPECT_EQ(nearkv_cuda_attend(gpu_, &work, nullptr), NKV_STATUS_UNSUPPORTED);
  EXPECT_NE(error().find("shared memory"), std::string::npos);
}

/// Parts [parts][rows][dim] of an attention, and what they make.
class MergeTest : public Gpu {
 protected:
  struct Parts {
    std::vector<float> output;
    std::vector<float> lse;
  };
  struct Merged {
    std::vector<float> output;
    std::vector<float> lse;
    bool operator==(const Merged&) const = default;
  };

  Parts random_parts(std::size_t parts, double spread) {
    std::normal_distribution<double> normal;
    Parts made;
    for (std::size_t i = 0; i < parts * kRows * kDim; ++i) {
      const double size = std::exp(std::min(spread, 10.0) * normal(random_));
      made.output.push_back(static_cast<float>(normal(random_) * size));
    }
    for (std::size_t i = 0; i < parts * kRows; ++i) {
      made.lse.push_back(static_cast<float>(spread * normal(random_)));
    }
    return made;
  }

  template <typename... Sources>
  Merged merge(const Sources&... sources) {
    const std::span<float> output = room<float>(kRows * kDim);
    const std::span<float> lse = room<float>(kRows);
    nearkv_cuda_merge_args work{};
    for (const Parts* const parts : {&sources...}) {
      work.source[work.sources++] = {stored(parts->output).data(), stored(parts->lse).data(),
                                     static_cast<std::uint32_t>(parts->lse.size() / kRows)};
    }
    work.output = output.data();
    work.lse = lse.data();
    work.rows = kRows;
    work.value_dim = kDim;
    EXPECT_EQ(nearkv_cuda_merge(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
    synchronize();
    return {{output.begin(), output.end()}, {lse.begin(), lse.end()}};
  }

  /// Part `order[i]` as part i.
  static Parts reordered(const Parts& parts, const std::vector<std::size_t>& order) {
    Parts out;
    for (const std::size_t part : order) {
      const auto output = std::span(parts.output).subspan(part * kRows * kDim, kRows * kDim);
      const auto lse = std::span(parts.lse).subspan(part * kRows, kRows);
      out.output.insert(out.output.end(), output.begin(), output.end());
      out.lse.insert(out.lse.end(), lse.begin(), lse.end());
    }
    return out;
  }

  static constexpr std::size_t kRows = 3;
  static constexpr std::size_t kDim = 24;
  std::mt19937 random_{1};
};

TEST_F(MergeTest, IsTheAttentionOfAllTokens) {
  for (const std::size_t parts : {1U, 2U, 7U, 300U}) {
    const Parts given = random_parts(parts, 3);
    const Merged merged = merge(given);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      std::vector<double> exact(kDim);
      for (std::size_t p = 0; p < parts; ++p) {
        const double weight = std::exp(double{given.lse[p * kRows + row]});
        sum += weight;
        for (std::size_t c = 0; c < kDim; ++c) {
          exact[c] += weight * given.output[(p * kRows + row) * kDim + c];
        }
      }
      for (double& value : exact) value /= sum;
      EXPECT_LT(max_norm_error(std::span(merged.output).subspan(row * kDim, kDim), exact), 1e-6);
      EXPECT_NEAR(merged.lse[row], std::log(sum), 1e-6 * (1 + std::abs(std::log(sum))));
    }
  }
}

TEST_F(MergeTest, HasTheSameBitsInAnyOrder) {
  for (const double spread : {0.1, 3.0, 30.0}) {
    const Parts given = random_parts(40, spread);
    std::vector<std::size_t> order(40);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const Merged merged = merge(given);
    for (int turn = 0; turn < 5; ++turn) {
      std::ranges::shuffle(order, random_);
      EXPECT_EQ(merge(reordered(given, order)), merged);
    }
  }
}

TEST_F(MergeTest, APartThatSawNothingChangesNothing) {
  Parts given = random_parts(3, 2);
  const Merged without = merge(reordered(given, {0, 2}));
  for (std::size_t row = 0; row < kRows; ++row) given.lse[kRows + row] = -kInfinity;
  std::ranges::fill(std::span(given.output).subspan(kRows * kDim, kRows * kDim), std::nanf(""));
  EXPECT_EQ(merge(given), without);
}

TEST_F(MergeTest, NothingSeenIsZeroAndNeverNaN) {
  Parts nothing{std::vector<float>(2 * kRows * kDim, 7), std::vector<float>(2 * kRows, -kInfinity)};
  for (const Parts& parts : {nothing, Parts{}}) {
    const Merged merged = merge(parts);
    EXPECT_EQ(merged.output, std::vector<float>(kRows * kDim, 0));
    EXPECT_EQ(merged.lse, std::vector<float>(kRows, -kInfinity));
  }
}

TEST_F(MergeTest, WhatIsNotFiniteIsNotHidden) {
  Parts given = random_parts(3, 1);
  given.output[0] = kInfinity;
  given.output[1] = -kInfinity;
  given.output[kRows * kDim + 1] = kInfinity;
  given.output[2] = std::nanf("");
  given.lse[1] = std::nanf("");
  const Merged merged = merge(given);
  EXPECT_EQ(merged.output[0], kInfinity);
  EXPECT_TRUE(std::isnan(merged.output[1]));
  EXPECT_TRUE(std::isnan(merged.output[2]));
  EXPECT_TRUE(std::isfinite(merged.output[3]));
  EXPECT_TRUE(std::isnan(merged.output[kDim]));
  EXPECT_TRUE(std::isnan(merged.lse[1]));
  EXPECT_TRUE(std::isfinite(merged.lse[2]));
}

TEST_F(MergeTest, MagnitudesFromSubnormalToTheGreatest) {
  for (const float size : {1e-44F, 1e-30F, 3e38F}) {
    Parts given{std::vector<float>(2 * kRows * kDim, size), std::vector<float>(2 * kRows, -50)};
    const Merged merged = merge(given);
    EXPECT_EQ(merged.output, std::vector<float>(kRows * kDim, size));
    EXPECT_FLOAT_EQ(merged.lse[0], -50 + std::log(2.0F));
  }
}

TEST_F(MergeTest, PartsOfSeveralSourcesAreThoseOfOne) {
  const Parts given = random_parts(3, 2);
  EXPECT_EQ(merge(reordered(given, {0, 1}), reordered(given, {2})), merge(given));
}

TEST_F(MergeTest, RefusesWhatItCannotTake) {
  const std::span<float> some = room<float>(64);
  nearkv_cuda_merge_args good{};
  good.source[0] = {some.data(), some.data(), 1};
  good.output = room<float>(16).data();
  good.lse = room<float>(1).data();
  good.rows = 1;
  good.value_dim = 16;
  good.sources = 1;
  const auto refused = [&](const std::function<void(nearkv_cuda_merge_args*)>& spoil) {
    nearkv_cuda_merge_args work = good;
    spoil(&work);
    EXPECT_EQ(nearkv_cuda_merge(gpu_, &work, nullptr), NKV_STATUS_BAD_ARGUMENT);
    EXPECT_NE(error(), "");
  };
  using Work = nearkv_cuda_merge_args;
  refused([](Work* w) { w->sources = NEARKV_CUDA_MERGE_SOURCES + 1; });
  refused([](Work* w) { w->source[0].lse = nullptr; });
  refused([](Work* w) { w->source[0].count = (1 << 22) + 1; });
  refused([](Work* w) { w->value_dim = 0; });
  refused([](Work* w) { w->output = nullptr; });
  EXPECT_EQ(nearkv_cuda_merge(gpu_, &good, nullptr), NKV_STATUS_OK) << error();
}

}  // namespace
}  // namespace nearkv::test

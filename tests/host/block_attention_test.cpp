// Attention over blocks in an engine's memory, against double precision and on every layout.
#include "nearkv/block_attention.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "support/elements.hpp"
#include "support/reference.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

struct Shape {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  BlockLayout layout = BlockLayout::kRows;
  std::size_t kv_heads = 2;
  std::size_t group = 4;
  std::size_t dim = 64;
  std::size_t block_tokens = 32;
};

std::size_t element_bytes(std::uint8_t dtype) { return dtype == NKV_DTYPE_FP32 ? 4 : 2; }

/// Where channel c of token t lies in a head's part of a block, by the header's words.
std::size_t key_place(const Shape& shape, std::size_t t, std::size_t c) {
  switch (shape.layout) {
    case BlockLayout::kChannelMajor:
      return c * shape.block_tokens + t;
    case BlockLayout::kTiles:
      return ((t / 16 * (shape.dim / 2) + c / 2) * 16 + t % 16) * 2 + c % 2;
    default:
      return t * shape.dim + c;
  }
}

std::size_t value_place(const Shape& shape, std::size_t t, std::size_t c) {
  if (shape.layout != BlockLayout::kTiles) return t * shape.dim + c;
  return ((c / 16 * (shape.block_tokens / 2) + t / 2) * 16 + c % 16) * 2 + t % 2;
}

/// An engine's cache of one layer, with requests whose blocks lie here and there in it. Elements
/// that no request has written are NaN.
class Engine {
 public:
  Engine(const Shape& shape, std::vector<std::int32_t> lengths,
         const std::vector<std::int32_t>& queries, Random& random)
      : shape_(shape), lengths_(std::move(lengths)), starts_{0} {
    for (const std::int32_t count : queries) starts_.push_back(starts_.back() + count);
    std::size_t blocks = 1;  // Of no request, as in vLLM.
    for (const std::int32_t length : lengths_) blocks += blocks_of(length);
    blocks_ = blocks;
    stride_ = blocks_of(*std::max_element(lengths_.begin(), lengths_.end())) + 1;
    const std::size_t bytes = element_bytes(shape.dtype);
    memory_.assign(blocks * shape.kv_heads * 2 * head_elements() * bytes, std::byte{0xFF});
    std::vector<std::int32_t> free(blocks - 1);
    std::iota(free.begin(), free.end(), 1);
    std::shuffle(free.begin(), free.end(), random);
    table_.assign(lengths_.size() * stride_, -7);
    for (std::size_t request = 0; request < lengths_.size(); ++request) {
      for (std::size_t i = 0; i < blocks_of(lengths_[request]); ++i) {
        table_[request * stride_ + i] = free.back();
        free.pop_back();
      }
      fill(request, random);
    }
    query_ = numbers(step_tokens() * heads() * shape.dim, 1.0, random);
    outputs_.assign(query_.size() * bytes, std::byte{0x55});
    lse_.assign(step_tokens() * heads(), 0.0F);
  }

  [[nodiscard]] BlockCache cache() const {
    const std::size_t head_bytes = head_elements() * element_bytes(shape_.dtype);
    BlockCache cache;
    cache.keys = memory_.data();
    cache.values = memory_.data() + head_bytes;
    cache.blocks = blocks_;
    cache.head_stride_bytes = 2 * head_bytes;
    cache.block_stride_bytes = shape_.kv_heads * cache.head_stride_bytes;
    cache.kv_heads = static_cast<std::uint32_t>(shape_.kv_heads);
    cache.head_dim = static_cast<std::uint32_t>(shape_.dim);
    cache.block_tokens = static_cast<std::uint32_t>(shape_.block_tokens);
    cache.dtype = shape_.dtype;
    cache.layout = shape_.layout;
    return cache;
  }

  Status begin_step(BlockBatch* batch, std::uint32_t max_queries = 8) const {
    return batch->begin_step(starts_, lengths_, {table_.data(), stride_, stride_},
                             static_cast<std::uint32_t>(shape_.block_tokens), max_queries);
  }

  Status attend(BlockBatch* batch, const BlockAttention& attention, const ThreadTeam& team = {}) {
    std::vector<std::byte> bytes(query_.size() * element_bytes(shape_.dtype));
    for (std::size_t i = 0; i < query_.size(); ++i) put(bytes.data(), i, query_[i]);
    BlockQueries queries;
    queries.queries = bytes.data();
    queries.outputs = outputs_.data();
    queries.query_stride_bytes = queries.output_stride_bytes =
        heads() * shape_.dim * element_bytes(shape_.dtype);
    queries.lse = lse_.data();
    queries.tokens = step_tokens();
    queries.group = static_cast<std::uint32_t>(shape_.group);
    return batch->attend(cache(), attention, queries, team);
  }

  /// Compares all queries of a request with double precision.
  void expect_exact(std::size_t request, const BlockAttention& attention) const {
    const auto count = static_cast<std::size_t>(starts_[request + 1] - starts_[request]);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t token = static_cast<std::size_t>(starts_[request]) + i;
      for (std::size_t head = 0; head < heads(); ++head) {
        SCOPED_TRACE("request " + std::to_string(request) + ", query " + std::to_string(i) +
                     ", head " + std::to_string(head));
        AttentionOptions options;
        options.scale = attention.scale;
        options.soft_cap = attention.soft_cap;
        options.window = attention.window;
        options.tokens = static_cast<std::size_t>(lengths_[request]) - (count - 1 - i);
        const std::span row =
            std::span(query_).subspan((token * heads() + head) * shape_.dim, shape_.dim);
        const Attention wanted =
            reference_attention(rows_[request][head / shape_.group], row, options);
        const std::vector<float> output = output_of(token, head);
        // Half a unit in the last place of the output's type, and the sums' own 1e-5.
        const double rounding = shape_.dtype == NKV_DTYPE_BF16   ? 0x1p-8
                                : shape_.dtype == NKV_DTYPE_FP16 ? 0x1p-11
                                                                 : 0;
        EXPECT_LT(max_norm_error(output, wanted.output), rounding + 1e-5);
        EXPECT_NEAR(lse_[token * heads() + head], wanted.lse, 2e-5 * (1 + std::abs(wanted.lse)));
      }
    }
  }

  [[nodiscard]] std::vector<float> output_of(std::size_t token, std::size_t head) const {
    std::vector<float> output(shape_.dim);
    for (std::size_t c = 0; c < shape_.dim; ++c) {
      output[c] =
          static_cast<float>(get(outputs_.data(), (token * heads() + head) * shape_.dim + c));
    }
    return output;
  }

  [[nodiscard]] bool is_untouched(std::size_t request) const {
    const std::size_t bytes = heads() * shape_.dim * element_bytes(shape_.dtype);
    const std::span all(outputs_);
    const auto first = static_cast<std::size_t>(starts_[request]);
    const std::size_t count = static_cast<std::size_t>(starts_[request + 1]) - first;
    const auto some = all.subspan(first * bytes, count * bytes);
    return std::all_of(some.begin(), some.end(), [](std::byte b) { return b == std::byte{0x55}; });
  }

  /// Sets one element of K of a request's token.
  void set_key(std::size_t request, std::size_t token, double value) {
    put(head_at(block_of(request, token), 0), key_place(shape_, token % shape_.block_tokens, 3),
        value);
  }

  std::vector<std::int32_t>& table() { return table_; }
  [[nodiscard]] std::size_t requests() const { return lengths_.size(); }

 private:
  [[nodiscard]] std::size_t heads() const { return shape_.kv_heads * shape_.group; }
  [[nodiscard]] std::size_t head_elements() const { return shape_.block_tokens * shape_.dim; }
  [[nodiscard]] std::size_t step_tokens() const { return static_cast<std::size_t>(starts_.back()); }
  [[nodiscard]] std::size_t blocks_of(std::int32_t length) const {
    return (static_cast<std::size_t>(length) + shape_.block_tokens - 1) / shape_.block_tokens;
  }
  [[nodiscard]] std::size_t block_of(std::size_t request, std::size_t token) const {
    return static_cast<std::size_t>(table_[request * stride_ + token / shape_.block_tokens]);
  }
  std::byte* head_at(std::size_t block, std::size_t head) {
    return memory_.data() +
           (block * shape_.kv_heads + head) * 2 * head_elements() * element_bytes(shape_.dtype);
  }

  void put(std::byte* at, std::size_t element, double value) const {
    if (shape_.dtype == NKV_DTYPE_FP32) {
      const auto single = static_cast<float>(value);
      std::memcpy(at + element * sizeof(single), &single, sizeof(single));
    } else {
      const auto pattern = static_cast<std::uint16_t>(
          std::isfinite(value) ? encode(shape_.dtype, value) : 0x7FFFU);  // A NaN in both.
      std::memcpy(at + element * sizeof(pattern), &pattern, sizeof(pattern));
    }
  }

  [[nodiscard]] double get(const std::byte* at, std::size_t element) const {
    float single = 0;
    std::uint16_t pattern = 0;
    if (shape_.dtype == NKV_DTYPE_FP32) {
      std::memcpy(&single, at + element * sizeof(single), sizeof(single));
      return single;
    }
    std::memcpy(&pattern, at + element * sizeof(pattern), sizeof(pattern));
    return decode(shape_.dtype, pattern);
  }

  /// Normal numbers of the cache's type.
  [[nodiscard]] std::vector<double> numbers(std::size_t count, double deviation,
                                            Random& random) const {
    std::normal_distribution<double> normal(0, deviation);
    std::vector<double> some(count);
    for (double& value : some) {
      value = normal(random);
      value = shape_.dtype == NKV_DTYPE_FP32 ? static_cast<float>(value)
                                             : decode(shape_.dtype, encode(shape_.dtype, value));
    }
    return some;
  }

  void fill(std::size_t request, Random& random) {
    std::vector<KvNumbers> heads(shape_.kv_heads);
    for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
      KvNumbers& rows = heads[head];
      rows.tokens = static_cast<std::size_t>(lengths_[request]);
      rows.head_dim = rows.value_dim = shape_.dim;
      rows.keys = numbers(rows.tokens * shape_.dim, 2.0, random);
      rows.values = numbers(rows.tokens * shape_.dim, 1.0, random);
      for (std::size_t t = 0; t < rows.tokens; ++t) {
        std::byte* const keys = head_at(block_of(request, t), head);
        std::byte* const values = keys + head_elements() * element_bytes(shape_.dtype);
        for (std::size_t c = 0; c < shape_.dim; ++c) {
          const std::size_t token = t % shape_.block_tokens;
          put(keys, key_place(shape_, token, c), rows.keys[t * shape_.dim + c]);
          put(values, value_place(shape_, token, c), rows.values[t * shape_.dim + c]);
        }
      }
    }
    rows_.push_back(std::move(heads));
  }

  Shape shape_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> starts_;
  std::size_t blocks_ = 0;
  std::size_t stride_ = 0;
  std::vector<std::int32_t> table_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<KvNumbers>> rows_;  ///< [request][head].
  std::vector<double> query_;
  std::vector<std::byte> outputs_;
  std::vector<float> lse_;
};

/// Three threads beside the caller's.
void run_on_threads(ThreadTeam::Body body, void* work, unsigned members) {
  std::vector<std::jthread> others;
  for (unsigned member = 1; member < members; ++member) others.emplace_back(body, work);
  body(work);
}
constexpr ThreadTeam kThreads{4, run_on_threads};

BlockAttention scaled(const Shape& shape) {
  return {1.0F / std::sqrt(static_cast<float>(shape.dim)), 0, 0};
}

/// Every shape that a kernel has a path of its own for.
std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](std::uint8_t dtype, BlockLayout layout, std::size_t dim, std::size_t group,
                       std::size_t block) {
    shapes.push_back({dtype, layout, 2, group, dim, block});
  };
  constexpr std::array kLayouts = {BlockLayout::kRows, BlockLayout::kChannelMajor,
                                   BlockLayout::kTiles};
  for (const BlockLayout layout : kLayouts) {
    for (const std::size_t dim : {32U, 64U, 80U, 96U, 128U, 192U, 256U, 576U}) {
      add(NKV_DTYPE_BF16, layout, dim, 3, 32);
    }
    for (std::size_t group = 1; group <= 17; ++group) add(NKV_DTYPE_BF16, layout, 64, group, 64);
    for (const std::size_t block : {32U, 64U, 96U, 128U, 160U}) {
      add(NKV_DTYPE_BF16, layout, 128, 4, block);
    }
  }
  for (const BlockLayout layout : {BlockLayout::kRows, BlockLayout::kChannelMajor}) {
    for (const std::size_t block : {16U, 48U, 80U}) add(NKV_DTYPE_BF16, layout, 64, 2, block);
    for (const std::uint8_t dtype : {NKV_DTYPE_FP16, NKV_DTYPE_FP32}) {
      for (const std::size_t dim : {64U, 80U, 128U}) add(dtype, layout, dim, 5, 32);
    }
  }
  return shapes;
}

TEST(BlockAttention, IsExactOnEveryShape) {
  std::uint64_t number = 0;
  for (const Shape& shape : all_shapes()) {
    Random random = case_random(number++);
    SCOPED_TRACE("dtype " + std::to_string(shape.dtype) + ", layout " +
                 std::to_string(static_cast<int>(shape.layout)) + ", head_dim " +
                 std::to_string(shape.dim) + ", group " + std::to_string(shape.group) +
                 ", blocks of " + std::to_string(shape.block_tokens));
    Engine engine(shape, {1, 33, 130, 257}, {1, 1, 1, 1}, random);
    BlockBatch batch;
    ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
    EXPECT_EQ(batch.queries(), 4U);
    ASSERT_EQ(engine.attend(&batch, scaled(shape)), Status::kOk);
    for (std::size_t request = 0; request < 4; ++request) {
      engine.expect_exact(request, scaled(shape));
    }
  }
}

TEST(BlockAttention, WindowsAndSoftCapsHideAndBend) {
  for (const BlockLayout layout :
       {BlockLayout::kRows, BlockLayout::kChannelMajor, BlockLayout::kTiles}) {
    for (const std::uint32_t window : {1U, 5U, 64U, 100U, 4096U}) {
      for (const float soft_cap : {0.0F, 20.0F}) {
        Random random = case_random(window);
        const Shape shape{NKV_DTYPE_BF16, layout};
        SCOPED_TRACE("layout " + std::to_string(static_cast<int>(layout)) + ", window " +
                     std::to_string(window) + ", soft_cap " + std::to_string(soft_cap));
        BlockAttention attention = scaled(shape);
        attention.window = window;
        attention.soft_cap = soft_cap;
        Engine engine(shape, {3, 200, 131}, {1, 1, 1}, random);
        BlockBatch batch;
        ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
        ASSERT_EQ(engine.attend(&batch, attention), Status::kOk);
        for (std::size_t request = 0; request < 3; ++request) {
          engine.expect_exact(request, attention);
        }
      }
    }
  }
}

TEST(BlockAttention, PortableKernelsBendToo) {
  Random random = case_random(1);
  const Shape shape{NKV_DTYPE_FP16, BlockLayout::kChannelMajor};
  BlockAttention attention = scaled(shape);
  attention.window = 70;
  attention.soft_cap = 20;
  Engine engine(shape, {3, 200, 131}, {1, 1, 1}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
  ASSERT_EQ(engine.attend(&batch, attention), Status::kOk);
  for (std::size_t request = 0; request < 3; ++request) engine.expect_exact(request, attention);
}

TEST(BlockAttention, LongRequestsAreSplitAmongThreads) {
  for (const std::uint32_t window : {0U, 1500U}) {
    Random random = case_random(window);
    const Shape shape{NKV_DTYPE_BF16, BlockLayout::kChannelMajor};
    BlockAttention attention = scaled(shape);
    attention.window = window;
    Engine engine(shape, {5000, 40, 1800}, {1, 1, 1}, random);
    BlockBatch batch;
    ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
    ASSERT_EQ(engine.attend(&batch, attention, kThreads), Status::kOk);
    for (std::size_t request = 0; request < 3; ++request) engine.expect_exact(request, attention);
  }
}

TEST(BlockAttention, AStepIsUsedByManyLayers) {
  Random random = case_random(2);
  const Shape shape{NKV_DTYPE_BF16, BlockLayout::kRows};
  const Shape other{NKV_DTYPE_BF16, BlockLayout::kRows, 1, 8, 128};
  Engine layer(shape, {300, 2000}, {1, 1}, random);
  Engine of_another_shape(other, {300, 2000}, {1, 1}, random);
  BlockBatch batch;
  ASSERT_EQ(layer.begin_step(&batch), Status::kOk);
  for (const ThreadTeam& team : {ThreadTeam{}, kThreads, ThreadTeam{}}) {
    ASSERT_EQ(layer.attend(&batch, scaled(shape), team), Status::kOk);
    layer.expect_exact(1, scaled(shape));
  }
  ASSERT_EQ(of_another_shape.begin_step(&batch), Status::kOk);
  ASSERT_EQ(of_another_shape.attend(&batch, scaled(other), kThreads), Status::kOk);
  of_another_shape.expect_exact(0, scaled(other));
}

TEST(BlockAttention, QueriesOfOneRequestSeeUpToThemselves) {
  Random random = case_random(3);
  const Shape shape{NKV_DTYPE_BF16, BlockLayout::kChannelMajor};
  Engine engine(shape, {100, 65, 90}, {4, 0, 9}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.begin_step(&batch, 8), Status::kOk);
  EXPECT_EQ(batch.queries(), 4U);
  ASSERT_EQ(engine.attend(&batch, scaled(shape)), Status::kOk);
  engine.expect_exact(0, scaled(shape));
  EXPECT_TRUE(engine.is_untouched(2)) << "a request with too many queries is left out";
}

TEST(BlockAttention, WhatIsNotFiniteStaysInItsRequest) {
  for (const std::uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_FP16}) {
    for (const BlockLayout layout : {BlockLayout::kRows, BlockLayout::kChannelMajor}) {
      Random random = case_random(4);
      const Shape shape{dtype, layout};
      Engine engine(shape, {120, 120}, {1, 1}, random);
      engine.set_key(0, 70, std::numeric_limits<double>::quiet_NaN());
      BlockBatch batch;
      ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
      ASSERT_EQ(engine.attend(&batch, scaled(shape)), Status::kOk);
      EXPECT_TRUE(std::isnan(engine.output_of(0, 0)[0]));
      engine.expect_exact(1, scaled(shape));
    }
  }
}

TEST(BlockAttention, TablesThatNameNoBlockAreRefused) {
  Random random = case_random(5);
  const Shape shape;
  for (const std::int32_t block : {-1, 1000}) {
    Engine engine(shape, {120, 120}, {1, 1}, random);
    engine.table()[1] = block;
    BlockBatch batch;
    ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
    EXPECT_EQ(engine.attend(&batch, scaled(shape)), Status::kBadPage);
    EXPECT_TRUE(engine.is_untouched(0) && engine.is_untouched(1));
  }
}

TEST(BlockAttention, StepsThatDoNotFitAreRefused) {
  BlockBatch batch;
  std::string reason;
  const std::vector<std::int32_t> table(8, 0);
  const auto begin = [&](std::vector<std::int32_t> starts, std::vector<std::int32_t> lengths) {
    return batch.begin_step(starts, lengths, {table.data(), 4, 4}, 32, 8, &reason);
  };
  EXPECT_EQ(begin({0, 1, 2}, {128, 3}), Status::kOk);
  EXPECT_EQ(begin({0, 1}, {128, 3}), Status::kBadArgument);
  EXPECT_EQ(begin({0, 3}, {2}), Status::kBadArgument) << "more queries than tokens";
  EXPECT_EQ(begin({0, -1}, {2}), Status::kBadArgument);
  EXPECT_EQ(begin({0, 1}, {129}), Status::kBadArgument) << "more tokens than blocks";
  EXPECT_NE(reason.find("block table"), std::string::npos) << reason;
  EXPECT_EQ(batch.queries(), 0U);
}

TEST(BlockAttention, CachesWithoutAKernelAreRefused) {
  Random random = case_random(6);
  Engine engine(Shape{}, {40}, {1}, random);
  BlockBatch batch;
  ASSERT_EQ(engine.begin_step(&batch), Status::kOk);
  const auto refused = [&](auto&& change) {
    BlockCache cache = engine.cache();
    change(cache);
    BlockQueries queries;
    queries.tokens = queries.group = 1;
    std::string reason;
    const Status status = batch.attend(cache, {}, queries, {}, &reason);
    EXPECT_FALSE(reason.empty());
    return status;
  };
  EXPECT_EQ(refused([](BlockCache& cache) { cache.dtype = NKV_DTYPE_INT8; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.head_dim = 40; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.head_dim = 592; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.block_tokens = 24; }), Status::kUnsupported);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.block_tokens = 64; }), Status::kBadArgument);
  EXPECT_EQ(refused([](BlockCache& cache) { cache.keys = nullptr; }), Status::kBadArgument);
}

TEST(BlockAttention, TheTeamOfThisProcessIsOneThreadWithoutOpenMP) {
  const ThreadTeam team = openmp_team();
  EXPECT_EQ(team.members, 1U);
  EXPECT_EQ(team.run, nullptr);
}

}  // namespace
}  // namespace nearkv::test

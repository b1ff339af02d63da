#include "block_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "support/elements.hpp"

namespace nearkv::test {
namespace {

constexpr std::byte kUntouched{0x55};

/// Where channel c of token t lies in a head's part of a block, by the header's words.
std::size_t key_place(const BlockShape& shape, std::size_t t, std::size_t c) {
  switch (shape.layout) {
    case BlockLayout::kChannelMajor:
      return c * shape.block_tokens + t;
    case BlockLayout::kTiles:
      return ((t / 16 * (shape.dim / 2) + c / 2) * 16 + t % 16) * 2 + c % 2;
    default:
      return t * shape.dim + c;
  }
}

std::size_t value_place(const BlockShape& shape, std::size_t t, std::size_t c) {
  if (shape.layout != BlockLayout::kTiles) return t * shape.dim + c;
  return ((c / 16 * (shape.block_tokens / 2) + t / 2) * 16 + c % 16) * 2 + t % 2;
}

void run_on_threads(ThreadTeam::Body body, void* work, unsigned members) {
  std::vector<std::jthread> others;
  for (unsigned member = 1; member < members; ++member) others.emplace_back(body, work);
  body(work);
}

}  // namespace

ThreadTeam four_threads() { return {4, run_on_threads}; }

std::array<ThreadTeam, 2> teams_of_fewer_threads() {
  return {{{4, [](ThreadTeam::Body body, void* work, unsigned) { body(work); }},
           {4, [](ThreadTeam::Body body, void* work, unsigned members) {
              for (unsigned member = 0; member < members; ++member) body(work);
            }}}};
}

BlockAttention usual_attention(const BlockShape& shape) {
  return {1.0F / std::sqrt(static_cast<float>(shape.dim)), 0, 0};
}

std::string BlockShape::name() const {
  return "dtype " + std::to_string(dtype) + ", layout " + std::to_string(static_cast<int>(layout)) +
         ", head_dim " + std::to_string(dim) + ", group " + std::to_string(group) + ", blocks of " +
         std::to_string(block_tokens) + (heads_adjoin ? "" : ", heads apart");
}

void BlockShape::put(std::byte* at, std::size_t element, double value) const {
  if (dtype == NKV_DTYPE_FP32) {
    const auto single = static_cast<float>(value);
    std::memcpy(at + element * sizeof(single), &single, sizeof(single));
  } else {
    auto pattern = static_cast<std::uint16_t>(std::isnan(value) ? 0x7FFFU : encode(dtype, value));
    if (std::isinf(value)) {
      pattern = static_cast<std::uint16_t>((dtype == NKV_DTYPE_BF16 ? 0x7F80U : 0x7C00U) |
                                           (value < 0 ? 0x8000U : 0U));
    }
    std::memcpy(at + element * sizeof(pattern), &pattern, sizeof(pattern));
  }
}

double BlockShape::get(const std::byte* at, std::size_t element) const {
  float single = 0;
  std::uint16_t pattern = 0;
  if (dtype == NKV_DTYPE_FP32) {
    std::memcpy(&single, at + element * sizeof(single), sizeof(single));
    return single;
  }
  std::memcpy(&pattern, at + element * sizeof(pattern), sizeof(pattern));
  return decode(dtype, pattern);
}

std::vector<double> BlockShape::numbers(std::size_t count, double deviation, Random* random) const {
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> some(count);
  for (double& value : some) {
    value = normal(*random);
    value =
        dtype == NKV_DTYPE_FP32 ? static_cast<float>(value) : decode(dtype, encode(dtype, value));
  }
  return some;
}

BlockEngine::BlockEngine(const BlockShape& shape, std::size_t blocks, Random* random)
    : shape_(shape), random_(random), users_(blocks) {
  memory_.assign(blocks * shape.kv_heads * 2 * head_elements() * shape.element_bytes(),
                 std::byte{0xFF});
  free_.resize(blocks - 1);
  std::iota(free_.begin(), free_.end(), 1);
  std::shuffle(free_.begin(), free_.end(), *random_);
}

std::size_t BlockEngine::admit(std::size_t tokens) {
  const std::size_t number = next_request_++;
  Request& request = requests_[number];
  request.rows.resize(shape_.kv_heads);
  for (KvNumbers& rows : request.rows) rows.head_dim = rows.value_dim = shape_.dim;
  grow(number, tokens);
  return number;
}

void BlockEngine::grow(std::size_t number, std::size_t tokens) {
  Request& request = requests_.at(number);
  const std::size_t first = request.tokens;
  request.tokens += tokens;
  while (request.blocks.size() < shape_.blocks_of(request.tokens)) {
    request.blocks.push_back(take_block());
  }
  for (KvNumbers& rows : request.rows) {
    rows.tokens = request.tokens;
    const std::vector<double> keys = shape_.numbers(tokens * shape_.dim, 2.0, random_);
    const std::vector<double> values = shape_.numbers(tokens * shape_.dim, 1.0, random_);
    rows.keys.insert(rows.keys.end(), keys.begin(), keys.end());
    rows.values.insert(rows.values.end(), values.begin(), values.end());
  }
  write(request, first);
}

std::size_t BlockEngine::fork(std::size_t number) {
  const std::size_t other = next_request_++;
  Request& request = requests_[other] = requests_.at(number);
  const std::size_t full = request.tokens / shape_.block_tokens;
  for (std::size_t i = 0; i < full; ++i) ++users_[static_cast<std::size_t>(request.blocks[i])];
  if (full < request.blocks.size()) {
    request.blocks.back() = take_block();
    write(request, full * shape_.block_tokens);
  }
  return other;
}

void BlockEngine::end(std::size_t number) {
  const std::size_t bytes = 2 * head_elements() * shape_.element_bytes();
  for (const std::int32_t block : requests_.at(number).blocks) {
    if (--users_[static_cast<std::size_t>(block)] > 0) continue;
    for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
      std::fill_n(head_at(block, head), bytes, std::byte{0xFF});
    }
    free_.push_back(block);
  }
  std::shuffle(free_.begin(), free_.end(), *random_);
  requests_.erase(number);
}

void BlockEngine::set(std::size_t number, std::size_t token, Tensor tensor, double value) {
  std::byte* const keys = head_at(requests_.at(number).blocks[token / shape_.block_tokens], 0);
  const std::size_t t = token % shape_.block_tokens;
  if (tensor == Tensor::kKeys) {
    shape_.put(keys, key_place(shape_, t, kSetChannel), value);
  } else {
    shape_.put(keys + head_elements() * shape_.element_bytes(), value_place(shape_, t, kSetChannel),
               value);
  }
}

void BlockEngine::rewrite(std::size_t number, std::size_t first) {
  Request& request = requests_.at(number);
  for (KvNumbers& rows : request.rows) {
    const std::size_t count = (request.tokens - first) * shape_.dim;
    const auto from = static_cast<std::ptrdiff_t>(first * shape_.dim);
    std::ranges::copy(shape_.numbers(count, 2.0, random_), rows.keys.begin() + from);
    std::ranges::copy(shape_.numbers(count, 1.0, random_), rows.values.begin() + from);
  }
  write(request, first);
}

std::vector<std::int64_t> BlockEngine::slots(std::size_t number, std::size_t first) const {
  const Request& request = requests_.at(number);
  std::vector<std::int64_t> slots;
  for (std::size_t t = first; t < request.tokens; ++t) {
    const auto block = static_cast<std::size_t>(request.blocks[t / shape_.block_tokens]);
    slots.push_back(
        static_cast<std::int64_t>(block * shape_.block_tokens + t % shape_.block_tokens));
  }
  return slots;
}

BlockCache BlockEngine::cache() const {
  const std::size_t head_bytes = head_elements() * shape_.element_bytes();
  BlockCache cache;
  cache.keys = memory_.data();
  cache.values = memory_.data() + head_bytes;
  cache.blocks = users_.size();
  const std::size_t both_bytes = 2 * head_bytes;
  cache.head_stride_bytes = shape_.heads_adjoin ? both_bytes : users_.size() * both_bytes;
  cache.block_stride_bytes = shape_.heads_adjoin ? shape_.kv_heads * both_bytes : both_bytes;
  cache.kv_heads = static_cast<std::uint32_t>(shape_.kv_heads);
  cache.head_dim = static_cast<std::uint32_t>(shape_.dim);
  cache.block_tokens = static_cast<std::uint32_t>(shape_.block_tokens);
  cache.dtype = shape_.dtype;
  cache.layout = shape_.layout;
  return cache;
}

std::byte* BlockEngine::head_at(std::int32_t block, std::size_t head) {
  const auto of_block = static_cast<std::size_t>(block);
  const std::size_t place =
      shape_.heads_adjoin ? of_block * shape_.kv_heads + head : head * users_.size() + of_block;
  return memory_.data() + place * 2 * head_elements() * shape_.element_bytes();
}

std::int32_t BlockEngine::take_block() {
  const std::int32_t block = free_.back();
  free_.pop_back();
  users_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockEngine::write(const Request& request, std::size_t first_token) {
  for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
    const KvNumbers& rows = request.rows[head];
    for (std::size_t t = first_token; t < request.tokens; ++t) {
      std::byte* const keys = head_at(request.blocks[t / shape_.block_tokens], head);
      std::byte* const values = keys + head_elements() * shape_.element_bytes();
      const std::size_t token = t % shape_.block_tokens;
      for (std::size_t c = 0; c < shape_.dim; ++c) {
        shape_.put(keys, key_place(shape_, token, c), rows.keys[t * shape_.dim + c]);
        shape_.put(values, value_place(shape_, token, c), rows.values[t * shape_.dim + c]);
      }
    }
  }
}

EngineStep::EngineStep(const BlockEngine& engine, std::vector<Asked> asked, Random* random)
    : EngineStep(engine, std::move(asked), std::vector<double>()) {
  query_ = engine.shape().numbers(tokens() * row_numbers(), 1.0, random);
}

EngineStep::EngineStep(const BlockEngine& engine, std::vector<Asked> asked,
                       std::vector<double> query)
    : engine_(&engine), asked_(std::move(asked)), starts_{0}, query_(std::move(query)) {
  std::size_t columns = 0;
  for (const Asked& one : asked_) {
    const BlockEngine::Request& request = engine.requests().at(one.request);
    starts_.push_back(starts_.back() + static_cast<std::int32_t>(one.queries));
    lengths_.push_back(static_cast<std::int32_t>(request.tokens));
    columns = std::max(columns, request.blocks.size());
  }
  stride_ = columns + 1;
  table_.assign(asked_.size() * stride_, -7);  // What lies behind a request's blocks means nothing.
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    std::ranges::copy(engine.requests().at(asked_[i].request).blocks, blocks(i).begin());
  }
  forget_answers();
}

void EngineStep::forget_answers() {
  outputs_.assign(tokens() * row_numbers() * engine_->shape().element_bytes(), kUntouched);
  lse_.assign(tokens() * engine_->shape().heads(), 0.0F);
}

Status EngineStep::begin(BlockBatch* batch, std::uint32_t max_queries) const {
  return batch->begin_step(starts_, lengths_, {table_.data(), stride_, stride_},
                           static_cast<std::uint32_t>(engine_->shape().block_tokens), max_queries);
}

Status EngineStep::attend(BlockBatch* batch, const BlockAttention& attention,
                          const ThreadTeam& team) {
  const BlockShape& shape = engine_->shape();
  std::vector<std::byte> bytes(query_.size() * shape.element_bytes());
  for (std::size_t i = 0; i < query_.size(); ++i) shape.put(bytes.data(), i, query_[i]);
  BlockQueries queries;
  queries.queries = bytes.data();
  queries.outputs = outputs_.data();
  queries.query_stride_bytes = queries.output_stride_bytes = row_numbers() * shape.element_bytes();
  queries.lse = lse_.data();
  queries.tokens = tokens();
  queries.group = static_cast<std::uint32_t>(shape.group);
  return batch->attend(engine_->cache(), attention, queries, team);
}

void EngineStep::expect_exact(const BlockAttention& attention, std::uint32_t max_queries) const {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    if (asked_[i].queries > max_queries) {
      EXPECT_TRUE(is_untouched(i)) << "request " << i << " has too many queries";
    } else {
      expect_exact_request(i, attention);
    }
  }
}

void EngineStep::expect_exact_request(std::size_t i, const BlockAttention& attention,
                                      std::size_t first_head) const {
  const BlockShape& shape = engine_->shape();
  const BlockEngine::Request& request = engine_->requests().at(asked_[i].request);
  for (std::size_t query = 0; query < asked_[i].queries; ++query) {
    const std::size_t token = static_cast<std::size_t>(starts_[i]) + query;
    for (std::size_t head = first_head; head < shape.heads(); ++head) {
      SCOPED_TRACE("request " + std::to_string(i) + ", query " + std::to_string(query) + ", head " +
                   std::to_string(head));
      AttentionOptions options;
      options.scale = attention.scale;
      options.soft_cap = attention.soft_cap;
      options.window = attention.window;
      options.tokens = static_cast<std::size_t>(lengths_[i]) - (asked_[i].queries - 1 - query);
      const Attention wanted =
          reference_attention(request.rows[head / shape.group], query_of(token, head), options);
      // Half a unit in the last place of the output's type, and the sums' own 1e-5.
      const double rounding = shape.dtype == NKV_DTYPE_BF16   ? 0x1p-8
                              : shape.dtype == NKV_DTYPE_FP16 ? 0x1p-11
                                                              : 0;
      EXPECT_LT(max_norm_error(output_of(token, head), wanted.output), rounding + 1e-5);
      EXPECT_NEAR(lse_[token * shape.heads() + head], wanted.lse,
                  2e-5 * (1 + std::abs(wanted.lse)));
    }
  }
}

std::vector<float> EngineStep::output_of(std::size_t token, std::size_t head) const {
  const BlockShape& shape = engine_->shape();
  std::vector<float> output(shape.dim);
  for (std::size_t c = 0; c < shape.dim; ++c) {
    output[c] = static_cast<float>(
        shape.get(outputs_.data(), (token * shape.heads() + head) * shape.dim + c));
  }
  return output;
}

std::vector<std::byte> EngineStep::answer(std::size_t i) const {
  const auto first = static_cast<std::size_t>(starts_[i]);
  const std::size_t row_bytes = row_numbers() * engine_->shape().element_bytes();
  const std::size_t heads = engine_->shape().heads();
  const auto outputs =
      std::span(outputs_).subspan(first * row_bytes, asked_[i].queries * row_bytes);
  const auto lse = std::as_bytes(std::span(lse_).subspan(first * heads, asked_[i].queries * heads));
  std::vector<std::byte> all(outputs.begin(), outputs.end());
  all.insert(all.end(), lse.begin(), lse.end());
  return all;
}

bool EngineStep::is_untouched(std::size_t i) const {
  const std::size_t row_bytes = row_numbers() * engine_->shape().element_bytes();
  const auto some = std::span(outputs_).subspan(static_cast<std::size_t>(starts_[i]) * row_bytes,
                                                asked_[i].queries * row_bytes);
  return std::ranges::all_of(some, [](std::byte b) { return b == kUntouched; });
}

EngineStep EngineStep::alone(std::size_t i) const {
  const auto first = query_.begin() + starts_[i] * static_cast<std::ptrdiff_t>(row_numbers());
  const auto end = query_.begin() + starts_[i + 1] * static_cast<std::ptrdiff_t>(row_numbers());
  return EngineStep(*engine_, {asked_[i]}, std::vector<double>(first, end));
}

std::span<std::int32_t> EngineStep::blocks(std::size_t i) {
  return std::span(table_).subspan(i * stride_, stride_);
}

}  // namespace nearkv::test

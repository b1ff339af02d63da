// An engine with a paged cache, as attention over its blocks sees it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nearkv/block_attention.hpp"
#include "support/reference.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

struct BlockShape {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  BlockLayout layout = BlockLayout::kRows;
  std::size_t kv_heads = 2;
  std::size_t group = 4;
  std::size_t dim = 64;
  std::size_t block_tokens = 32;
  bool heads_adjoin = true;  ///< In each block; otherwise each head has its blocks together.

  [[nodiscard]] std::size_t heads() const { return kv_heads * group; }
  [[nodiscard]] std::size_t element_bytes() const { return dtype == NKV_DTYPE_FP32 ? 4 : 2; }
  [[nodiscard]] std::size_t blocks_of(std::size_t tokens) const {
    return (tokens + block_tokens - 1) / block_tokens;
  }
  [[nodiscard]] std::string name() const;

  void put(std::byte* at, std::size_t element, double value) const;
  [[nodiscard]] double get(const std::byte* at, std::size_t element) const;
  /// Normal numbers of the dtype.
  [[nodiscard]] std::vector<double> numbers(std::size_t count, double deviation,
                                            Random* random) const;
};

/// The cache of one layer. Blocks here and there in it belong to requests, which come, grow, fork
/// and go. What no request has written is NaN, and block 0 is of none, as in vLLM.
class BlockEngine {
 public:
  struct Request {
    std::size_t tokens = 0;
    std::vector<std::int32_t> blocks;
    std::vector<KvNumbers> rows;  ///< By KV head.
  };

  /// `random` has to outlive it.
  BlockEngine(const BlockShape& shape, std::size_t blocks, Random* random);

  /// Its number. There has to be room.
  std::size_t admit(std::size_t tokens);
  void grow(std::size_t request, std::size_t tokens);
  /// The number of one that begins as another is, and shares its full blocks.
  std::size_t fork(std::size_t request);
  /// Gives its blocks back; those that no other shares become NaN.
  void end(std::size_t request);

  enum class Tensor { kKeys, kValues };
  /// Sets an element of a request's token in KV head 0, in channel kSetChannel.
  void set(std::size_t request, std::size_t token, Tensor tensor, double value);
  static constexpr std::size_t kSetChannel = 3;
  /// Draws the rows of a request's tokens from `first` on anew.
  void rewrite(std::size_t request, std::size_t first);

  /// Where a request's tokens from `first` on are: block * block_tokens + place.
  [[nodiscard]] std::vector<std::int64_t> slots(std::size_t request, std::size_t first = 0) const;

  [[nodiscard]] const BlockShape& shape() const { return shape_; }
  [[nodiscard]] BlockCache cache() const;
  [[nodiscard]] const std::map<std::size_t, Request>& requests() const { return requests_; }
  [[nodiscard]] std::size_t free_blocks() const { return free_.size(); }

 private:
  [[nodiscard]] std::size_t head_elements() const { return shape_.block_tokens * shape_.dim; }
  std::byte* head_at(std::int32_t block, std::size_t head);
  std::int32_t take_block();
  void write(const Request& request, std::size_t first_token);

  BlockShape shape_;
  Random* random_;
  std::vector<std::byte> memory_;
  std::vector<std::int32_t> free_;
  std::vector<int> users_;  ///< By block.
  std::map<std::size_t, Request> requests_;
  std::size_t next_request_ = 0;
};

/// A step of some requests of an engine as they are now, and what it answers.
class EngineStep {
 public:
  struct Asked {
    std::size_t request = 0;
    std::size_t queries = 1;
  };
  EngineStep(const BlockEngine& engine, std::vector<Asked> asked, Random* random);

  Status begin(BlockBatch* batch, std::uint32_t max_queries = 8) const;
  Status attend(BlockBatch* batch, const BlockAttention& attention, const ThreadTeam& team = {});

  /// Compares all queries of the step with double precision. The answers of requests with more
  /// queries than `max_queries` must be untouched.
  void expect_exact(const BlockAttention& attention, std::uint32_t max_queries = 8) const;
  /// Compares all queries of the step's i-th request with double precision, of heads from
  /// `first_head` on.
  void expect_exact_request(std::size_t i, const BlockAttention& attention,
                            std::size_t first_head = 0) const;
  [[nodiscard]] std::vector<float> output_of(std::size_t token, std::size_t head) const;
  [[nodiscard]] float lse_of(std::size_t token, std::size_t head) const {
    return lse_[token * engine_->shape().heads() + head];
  }
  /// What a head asked.
  [[nodiscard]] std::span<const double> query_of(std::size_t token, std::size_t head) const {
    const BlockShape& shape = engine_->shape();
    return std::span(query_).subspan((token * shape.heads() + head) * shape.dim, shape.dim);
  }
  /// Sets a channel of what head 0 asks.
  void set_query(std::size_t token, std::size_t channel, double value) {
    query_[token * row_numbers() + channel] = value;
  }
  /// All that the i-th request was answered: outputs and LSE.
  [[nodiscard]] std::vector<std::byte> answer(std::size_t i) const;
  [[nodiscard]] bool is_untouched(std::size_t i) const;

  /// As if it had not been answered.
  void forget_answers();
  /// A step of the i-th request alone, with the same queries.
  [[nodiscard]] EngineStep alone(std::size_t i) const;

  [[nodiscard]] const std::vector<Asked>& asked() const { return asked_; }
  /// The i-th request's row of the block table.
  [[nodiscard]] std::span<std::int32_t> blocks(std::size_t i);

 private:
  EngineStep(const BlockEngine& engine, std::vector<Asked> asked, std::vector<double> query);
  [[nodiscard]] std::size_t tokens() const { return static_cast<std::size_t>(starts_.back()); }
  [[nodiscard]] std::size_t row_numbers() const {
    return engine_->shape().heads() * engine_->shape().dim;
  }

  const BlockEngine* engine_;
  std::vector<Asked> asked_;
  std::vector<std::int32_t> starts_;
  std::vector<std::int32_t> lengths_;
  std::size_t stride_ = 0;
  std::vector<std::int32_t> table_;
  std::vector<double> query_;
  std::vector<std::byte> outputs_;
  std::vector<float> lse_;
};

/// Threads that a test lends, beside the caller's.
ThreadTeam four_threads();
/// Teams that say four threads and are fewer: one that comes alone, and one whose thread comes four
/// times, one after another.
std::array<ThreadTeam, 2> teams_of_fewer_threads();

/// The usual scale for a shape.
BlockAttention usual_attention(const BlockShape& shape);

}  // namespace nearkv::test

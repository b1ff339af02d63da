#include "blocks/batch_plan.hpp"

#include <algorithm>
#include <limits>

namespace nearkv {
namespace {

constexpr std::size_t kLeastRunTokens = 512;  // Starting a run costs more than shorter ones take.
constexpr std::size_t kRunsOfAMember = 6;     // So that all members finish together.

}  // namespace

Status BatchPlan::begin_step(const Requests& requests, const char** why) {
  const std::size_t count = requests.lengths.size();
  queries_.clear();
  split_ = {};
  step_tokens_ = end_block_ = 0;
  block_tokens_ = requests.block_tokens;
  if (requests.starts.size() != count + 1 || block_tokens_ == 0) {
    *why = "starts must have one element more than lengths, and blocks some tokens";
    return Status::kBadArgument;
  }
  table_blocks_ = 0;
  for (std::size_t request = 0; request < count; ++request) {
    const std::int64_t begin = requests.starts[request];
    const std::int64_t end = requests.starts[request + 1];
    const std::int64_t length = requests.lengths[request];
    if (begin < 0 || end < begin || length < end - begin) {
      queries_.clear();
      *why = "a request has fewer tokens than queries, or starts are not ascending";
      return Status::kBadArgument;
    }
    if (end - begin > requests.max_queries) continue;
    for (std::int64_t token = begin; token < end; ++token) {
      queries_.push_back({static_cast<std::size_t>(token), request,
                          static_cast<std::size_t>(length - (end - 1 - token))});
    }
    if (end == begin) continue;
    step_tokens_ = std::max(step_tokens_, static_cast<std::size_t>(end));
    table_blocks_ = std::max(
        table_blocks_, (static_cast<std::size_t>(length) + block_tokens_ - 1) / block_tokens_);
  }
  if (table_blocks_ > requests.table.columns) {
    queries_.clear();
    *why = "a request has more tokens than its row of the block table has blocks for";
    return Status::kBadArgument;
  }
  table_.resize(count * table_blocks_);
  for (const QueryPlace& query : queries_) {
    const std::size_t blocks = (query.length + block_tokens_ - 1) / block_tokens_;
    const std::int32_t* const from = requests.table.blocks + query.request * requests.table.stride;
    std::int32_t* const to = table_.data() + query.request * table_blocks_;
    for (std::size_t i = 0; i < blocks; ++i) {
      to[i] = from[i];
      // A negative number is beyond all blocks.
      const auto block = static_cast<std::size_t>(static_cast<std::uint32_t>(from[i]));
      end_block_ = std::max(end_block_, block + 1);
    }
  }
  return Status::kOk;
}

std::size_t BatchPlan::seen_tokens(const QueryPlace& query, std::size_t window) const {
  return window == 0 ? query.length : std::min(query.length, window);
}

void BatchPlan::split(const Split& wanted) {
  if (split_ == wanted) return;
  split_ = wanted;
  std::size_t all_tokens = 0;
  for (const QueryPlace& query : queries_) all_tokens += seen_tokens(query, wanted.window);
  all_tokens *= wanted.kv_heads;
  const std::size_t shares = std::size_t{wanted.members} * kRunsOfAMember;
  const std::size_t run_tokens =
      wanted.members <= 1 ? std::numeric_limits<std::size_t>::max()
                          : std::max(kLeastRunTokens, (all_tokens + shares - 1) / shares);
  tasks_.clear();
  runs_.clear();
  for (std::size_t query = 0; query < queries_.size(); ++query) {
    const std::size_t length = queries_[query].length;
    const std::size_t tokens = seen_tokens(queries_[query], wanted.window);
    const std::size_t first = length - tokens;
    const std::size_t parts = (tokens - 1) / run_tokens + 1;
    for (std::size_t head = 0; head < wanted.kv_heads; ++head) {
      const std::size_t first_run = runs_.size();
      for (std::size_t part = 0; part < parts; ++part) {
        // Cut between blocks: a block that two runs share would be read twice.
        const auto cut = [&](std::size_t index) {
          const std::size_t at = first + tokens * index / parts;
          if (index == parts) return length;
          return std::max(first, at / block_tokens_ * block_tokens_);
        };
        if (cut(part) < cut(part + 1)) {
          runs_.push_back({tasks_.size(), cut(part), cut(part + 1)});
        }
      }
      tasks_.push_back({query, head, first_run, runs_.size()});
    }
  }
}

}  // namespace nearkv

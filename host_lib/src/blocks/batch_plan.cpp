#include "blocks/batch_plan.hpp"

#include <algorithm>
#include <functional>
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
  for (std::size_t i = 0; i < queries_.size(); ++i) {
    const QueryPlace& query = queries_[i];
    // The last query of a request sees all that the others see.
    if (i + 1 < queries_.size() && queries_[i + 1].request == query.request) continue;
    const std::size_t blocks = (query.length + block_tokens_ - 1) / block_tokens_;
    const std::int32_t* const from = requests.table.blocks + query.request * requests.table.stride;
    std::int32_t* const to = table_.data() + query.request * table_blocks_;
    for (std::size_t column = 0; column < blocks; ++column) {
      to[column] = from[column];
      // A negative number is beyond all blocks.
      const auto block = static_cast<std::size_t>(static_cast<std::uint32_t>(from[column]));
      end_block_ = std::max(end_block_, block + 1);
    }
  }
  return Status::kOk;
}

std::size_t BatchPlan::tokens_of_far(std::size_t window, std::size_t far_tokens) const {
  std::size_t tokens = 0;
  for (const QueryPlace& query : queries_) {
    const std::size_t seen = query.seen(window);
    if (seen < far_tokens) return 0;
    tokens += seen;
  }
  return tokens;
}

void BatchPlan::split(const Split& wanted) {
  if (split_ == wanted) return;
  split_ = wanted;
  far_.clear();
  std::size_t all_tokens = 0;
  for (const QueryPlace& query : queries_) {
    if (is_far(query)) {
      far_.push_back(query);
    } else {
      all_tokens += query.seen(wanted.window);
    }
  }
  std::ranges::stable_sort(far_, std::ranges::greater(),
                           [&](const QueryPlace& query) { return query.seen(wanted.window); });
  all_tokens *= wanted.kv_heads;
  const std::size_t shares = std::size_t{wanted.members} * kRunsOfAMember;
  const std::size_t run_tokens =
      wanted.members <= 1 ? std::numeric_limits<std::size_t>::max()
                          : std::max(kLeastRunTokens, (all_tokens + shares - 1) / shares);
  tasks_.clear();
  runs_.clear();
  run_rows_ = 0;
  const std::size_t most = std::max<std::size_t>(kTaskRows / wanted.group, 1);
  for (std::size_t first = 0; first < queries_.size();) {
    std::size_t end = first + 1;
    if (is_far(queries_[first])) {
      first = end;
      continue;
    }
    while (end < queries_.size() && end - first < most && !is_far(queries_[end]) &&
           queries_[end].request == queries_[first].request) {
      ++end;
    }
    // What adjoins is read in one sweep, which memory answers faster than strides.
    const std::size_t rows = (end - first) * wanted.group;
    const std::size_t together =
        wanted.heads_adjoin ? std::max<std::size_t>(kTaskRows / rows, 1) : 1;
    for (std::size_t head = 0; head < wanted.kv_heads; head += together) {
      const std::size_t heads = std::min(together, wanted.kv_heads - head);
      add_task({first, end - first, head, heads, runs_.size(), 0}, wanted.window, run_tokens);
    }
    first = end;
  }
}

void BatchPlan::add_task(const AttendTask& task, std::size_t window, std::size_t run_tokens) {
  const std::size_t first = queries_[task.first_query].first_seen(window);
  const std::size_t end = queries_[task.first_query + task.queries - 1].length;
  // A token that more queries see takes longer: it is read once, but multiplied for each.
  const std::size_t parts = ((end - first) * task.queries * task.heads - 1) / run_tokens + 1;
  const auto cut = [&](std::size_t index) {
    // Between blocks: a block that two runs share would be read twice.
    const std::size_t at = first + (end - first) * index / parts;
    return index == parts ? end : std::max(first, at / block_tokens_ * block_tokens_);
  };
  for (std::size_t part = 0; part < parts; ++part) {
    if (cut(part) >= cut(part + 1)) continue;
    runs_.push_back({tasks_.size(), cut(part), cut(part + 1), run_rows_});
    run_rows_ += task.heads * task.queries * split_.group;
  }
  tasks_.push_back(task);
  tasks_.back().end_run = runs_.size();
}

}  // namespace nearkv

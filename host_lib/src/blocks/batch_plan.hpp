// A step's queries, and how the work of a layer is split among threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nearkv/block_attention.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// One query of a step.
struct QueryPlace {
  std::size_t token = 0;    ///< Of the step.
  std::size_t request = 0;  ///< Of the step.
  std::size_t length = 0;   ///< Tokens that it may see, its own the last.

  /// The first token that it sees. A window of 0 is none.
  [[nodiscard]] std::size_t first_seen(std::size_t window) const {
    return window == 0 || length < window ? 0 : length - window;
  }

  /// Tokens that it sees.
  [[nodiscard]] std::size_t seen(std::size_t window) const { return length - first_seen(window); }
};

/// KV heads, and queries of one request that share what is read of them. Its runs lie together.
struct AttendTask {
  std::size_t first_query = 0;
  std::size_t queries = 0;
  std::size_t first_head = 0;
  std::size_t heads = 0;
  std::size_t first_run = 0;
  std::size_t end_run = 0;
};

/// Some of the tokens that a task's queries see.
struct RunPlace {
  std::size_t task = 0;
  std::size_t first_token = 0;
  std::size_t end_token = 0;
  std::size_t first_row = 0;  ///< Of all runs' rows, one after the other.
};

/// Query rows that share a task, unless those of one query and KV head are more.
inline constexpr std::size_t kTaskRows = 32;

class BatchPlan {
 public:
  struct Requests {
    std::span<const std::int32_t> starts;
    std::span<const std::int32_t> lengths;
    BlockTable table;
    std::uint32_t block_tokens = 0;
    std::uint32_t max_queries = 0;
  };

  /// As BlockBatch::begin_step().
  Status begin_step(const Requests& requests, const char** why);

  /// What a split depends on.
  struct Split {
    std::size_t kv_heads = 0;
    std::size_t group = 0;
    std::size_t window = 0;  ///< 0: none.
    unsigned members = 0;
    bool heads_adjoin = false;   ///< A block has its KV heads one after the other.
    std::size_t far_tokens = 0;  ///< Queries that see as many are far ones; 0: none are.
    bool operator==(const Split&) const = default;
  };

  /// Splits the tokens that queries see into runs of about the same length, but for those of far
  /// queries. Kept while layers ask for the same.
  void split(const Split& wanted);

  /// Queries that are in no task, those that see most first.
  [[nodiscard]] std::span<const QueryPlace> far() const { return far_; }

  /// Tokens that queries see, if each of them sees at least `far_tokens`; else 0.
  [[nodiscard]] std::size_t tokens_of_far(std::size_t window, std::size_t far_tokens) const;

  [[nodiscard]] std::span<const QueryPlace> queries() const { return queries_; }
  [[nodiscard]] std::span<const AttendTask> tasks() const { return tasks_; }
  [[nodiscard]] std::span<const RunPlace> runs() const { return runs_; }
  /// Rows of all runs together.
  [[nodiscard]] std::size_t run_rows() const { return run_rows_; }
  [[nodiscard]] const std::int32_t* blocks_of(std::size_t request) const {
    return table_.data() + request * table_blocks_;
  }
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }

  /// One more than the last token of the step that has a query.
  [[nodiscard]] std::size_t step_tokens() const { return step_tokens_; }

  /// Whether all blocks that queries may see are below `blocks`.
  [[nodiscard]] bool names_blocks_below(std::size_t blocks) const { return end_block_ <= blocks; }

 private:
  void add_task(const AttendTask& task, std::size_t window, std::size_t run_tokens);

  std::vector<QueryPlace> queries_;
  std::vector<std::int32_t> table_;  ///< [requests][table_blocks].
  std::size_t table_blocks_ = 0;
  std::uint32_t block_tokens_ = 0;
  std::size_t step_tokens_ = 0;
  std::size_t end_block_ = 0;

  [[nodiscard]] bool is_far(const QueryPlace& query) const {
    return split_.far_tokens != 0 && query.seen(split_.window) >= split_.far_tokens;
  }

  Split split_;
  std::vector<QueryPlace> far_;
  std::vector<AttendTask> tasks_;
  std::vector<RunPlace> runs_;
  std::size_t run_rows_ = 0;
};

}  // namespace nearkv

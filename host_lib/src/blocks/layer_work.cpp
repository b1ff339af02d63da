#include "blocks/layer_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "page/elements.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kLineFloats = 16;

}  // namespace

void store_row(std::span<const float> row, std::uint8_t dtype, std::byte* to) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (dtype == NKV_DTYPE_FP32) {
      std::memcpy(to + c * sizeof(float), &row[c], sizeof(float));
      continue;
    }
    const std::uint16_t bits = dtype == NKV_DTYPE_BF16 ? to_bf16(row[c]) : to_fp16(row[c]);
    std::memcpy(to + c * sizeof(bits), &bits, sizeof(bits));
  }
}

void RunResults::reset(const BatchPlan& plan, std::size_t dim) {
  dim_ = dim;
  row_floats_ = round_up(dim + 2, kLineFloats);
  if (const std::size_t floats = row_floats_ * plan.run_rows(); floats > floats_) {
    sums_ = hwy::AllocateAligned<float>(floats);
    floats_ = sums_ != nullptr ? floats : 0;
    if (sums_ == nullptr) throw std::bad_alloc();
  }
  if (plan.tasks().size() > missing_.size()) {
    missing_ = std::vector<std::atomic<std::size_t>>(plan.tasks().size());
  }
  for (std::size_t task = 0; task < plan.tasks().size(); ++task) {
    missing_[task] = plan.tasks()[task].end_run - plan.tasks()[task].first_run;
  }
}

void LayerWork::take_runs() noexcept {
  const std::span<const RunPlace> runs = plan_.runs();
  for (std::size_t run = next_.fetch_add(1, std::memory_order_relaxed); run < runs.size();
       run = next_.fetch_add(1, std::memory_order_relaxed)) {
    const AttendTask& task = plan_.tasks()[runs[run].task];
    attend(runs[run], task);
    if (results_.complete(runs[run].task)) merge(task);
  }
}

void LayerWork::attend(const RunPlace& place, const AttendTask& task) {
  const std::span<const QueryPlace> queries =
      plan_.queries().subspan(task.first_query, task.queries);
  const std::size_t bytes = queries_.group * cache_.row_bytes();
  BlockRun run;
  run.cache = &cache_;
  run.table = plan_.blocks_of(queries.front().request);
  run.first_head = task.first_head;
  run.heads = task.heads;
  run.first_token = place.first_token;
  run.end_token = place.end_token;
  run.query = queries_.queries + queries.front().token * queries_.query_stride_bytes +
              task.first_head * bytes;
  run.group = queries_.group;
  run.queries = queries;
  run.window = window_;
  run.factor = factor_;
  run.soft_cap = soft_cap_;
  std::array<std::byte, kTaskRows * NKV_MAX_HEAD_DIM * sizeof(float)> together;
  if (queries.size() > 1) {
    std::byte* to = together.data();
    for (std::size_t head = 0; head < task.heads; ++head) {
      for (std::size_t i = 0; i < queries.size(); ++i, to += bytes) {
        std::memcpy(to, run.query + i * queries_.query_stride_bytes + head * bytes, bytes);
      }
    }
    run.query = together.data();
  }
  kernel_.attend(run, sums_of(place, task));
}

void LayerWork::merge(const AttendTask& task) {
  for (std::size_t head = 0; head < task.heads; ++head) {
    for (std::size_t query = 0; query < task.queries; ++query) {
      for (std::size_t row = 0; row < queries_.group; ++row) merge_row(task, head, query, row);
    }
  }
}

void LayerWork::merge_row(const AttendTask& task, std::size_t head, std::size_t query,
                          std::size_t row) {
  const std::size_t dim = cache_.head_dim;
  const std::size_t token = plan_.queries()[task.first_query + query].token;
  const std::size_t at = (head * task.queries + query) * queries_.group + row;
  const std::span<const RunPlace> runs =
      plan_.runs().subspan(task.first_run, task.end_run - task.first_run);
  float maximum = -std::numeric_limits<float>::infinity();
  for (const RunPlace& run : runs) {
    maximum = std::max(maximum, sums_of(run, task).maximum[at]);
  }
  float weight = 0;
  const std::span merged(sums_of(runs.front(), task).values + at * dim, dim);
  for (const RunPlace& run : runs) {
    const RowSums part = sums_of(run, task);
    const float factor = std::exp2(part.maximum[at] - maximum);
    weight += factor * part.weight[at];
    const float* const from = part.values + at * dim;
    if (&run == &runs.front()) {
      for (float& value : merged) value *= factor;
    } else {
      for (std::size_t c = 0; c < dim; ++c) merged[c] += factor * from[c];
    }
  }
  for (float& value : merged) value /= weight;
  const std::size_t query_head = (task.first_head + head) * queries_.group + row;
  store_row(
      merged, cache_.dtype,
      queries_.outputs + token * queries_.output_stride_bytes + query_head * cache_.row_bytes());
  if (queries_.lse != nullptr) {
    queries_.lse[token * cache_.kv_heads * queries_.group + query_head] =
        (maximum + std::log2(weight)) / std::numbers::log2e_v<float>;
  }
}

}  // namespace nearkv

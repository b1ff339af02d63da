#include "blocks/layer_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <span>

#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kLineFloats = 16;

}  // namespace

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
  BlockRun run;
  run.cache = &cache_;
  run.table = plan_.blocks_of(queries.front().request);
  run.first_head = task.first_head;
  run.heads = task.heads;
  run.first_token = place.first_token;
  run.end_token = place.end_token;
  run.query = rows_.queries(queries.front().token, task.first_head).data();
  run.group = rows_.group();
  run.queries = queries;
  run.window = window_;
  run.factor = factor_;
  run.soft_cap = soft_cap_;
  std::array<std::byte, kTaskRows * NKV_MAX_HEAD_DIM * sizeof(float)> together;
  if (queries.size() > 1) {
    std::byte* to = together.data();
    for (std::size_t head = 0; head < task.heads; ++head) {
      for (const QueryPlace& query : queries) {
        to = std::ranges::copy(rows_.queries(query.token, task.first_head + head), to).out;
      }
    }
    run.query = together.data();
  }
  kernel_.attend(run, sums_of(place, task));
}

void LayerWork::merge(const AttendTask& task) {
  for (std::size_t head = 0; head < task.heads; ++head) {
    for (std::size_t query = 0; query < task.queries; ++query) {
      for (std::size_t row = 0; row < rows_.group(); ++row) merge_row(task, head, query, row);
    }
  }
}

void LayerWork::merge_row(const AttendTask& task, std::size_t head, std::size_t query,
                          std::size_t row) {
  const std::size_t dim = cache_.head_dim;
  const std::size_t token = plan_.queries()[task.first_query + query].token;
  const std::size_t at = (head * task.queries + query) * rows_.group() + row;
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
  rows_.answer(token, (task.first_head + head) * rows_.group() + row, merged,
               maximum + std::log2(weight));
}

}  // namespace nearkv

#include "blocks/layer_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "page/elements.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kLineFloats = 16;  // Of a line of the cache: members do not share any.

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

}  // namespace

void RunResults::reset(const BatchPlan& plan, std::size_t group, std::size_t dim) {
  group_ = group;
  dim_ = dim;
  stride_ = round_up(group * (dim + 2), kLineFloats);
  if (const std::size_t floats = stride_ * plan.runs().size(); floats > floats_) {
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
    attend(run, task);
    if (results_.complete(runs[run].task)) merge(task);
  }
}

void LayerWork::attend(std::size_t index, const AttendTask& task) {
  const QueryPlace& place = plan_.queries()[task.query];
  BlockRun run;
  run.cache = &cache_;
  run.table = plan_.blocks_of(place.request);
  run.kv_head = task.kv_head;
  run.first_token = plan_.runs()[index].first_token;
  run.end_token = plan_.runs()[index].end_token;
  run.query = queries_.queries + place.token * queries_.query_stride_bytes +
              task.kv_head * queries_.group * cache_.head_dim * nkv_element_bytes(cache_.dtype);
  run.group = queries_.group;
  run.factor = factor_;
  run.soft_cap = soft_cap_;
  kernel_.attend(run, results_.of(index));
}

void LayerWork::merge(const AttendTask& task) {
  const std::size_t dim = cache_.head_dim;
  const std::size_t token = plan_.queries()[task.query].token;
  for (std::size_t row = 0; row < queries_.group; ++row) {
    float maximum = -std::numeric_limits<float>::infinity();
    for (std::size_t run = task.first_run; run < task.end_run; ++run) {
      maximum = std::max(maximum, results_.of(run).maximum[row]);
    }
    float weight = 0;
    const std::span merged(results_.of(task.first_run).values + row * dim, dim);
    for (std::size_t run = task.first_run; run < task.end_run; ++run) {
      const RowSums part = results_.of(run);
      const float factor = std::exp2(part.maximum[row] - maximum);
      weight += factor * part.weight[row];
      const float* const from = part.values + row * dim;
      if (run == task.first_run) {
        for (float& value : merged) value *= factor;
      } else {
        for (std::size_t c = 0; c < dim; ++c) merged[c] += factor * from[c];
      }
    }
    for (float& value : merged) value /= weight;
    const std::size_t head = task.kv_head * queries_.group + row;
    store_row(merged, cache_.dtype,
              queries_.outputs + token * queries_.output_stride_bytes +
                  head * dim * nkv_element_bytes(cache_.dtype));
    if (queries_.lse != nullptr) {
      queries_.lse[token * cache_.kv_heads * queries_.group + head] =
          (maximum + std::log2(weight)) / std::numbers::log2e_v<float>;
    }
  }
}

}  // namespace nearkv

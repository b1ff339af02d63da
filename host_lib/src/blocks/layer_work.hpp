// A layer's work as the members of a team share it out.
#pragma once

#include <hwy/aligned_allocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "blocks/batch_plan.hpp"
#include "blocks/block_run.hpp"
#include "blocks/layer_rows.hpp"
#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Where the runs of a layer leave what they summed, and how many of a task's are missing.
class RunResults {
 public:
  /// Room for a plan's runs, whose rows are of `dim` channels. Throws std::bad_alloc.
  void reset(const BatchPlan& plan, std::size_t dim);

  /// Of a run with so many rows.
  [[nodiscard]] RowSums of(const RunPlace& run, std::size_t rows) const {
    float* const values = sums_.get() + run.first_row * row_floats_;
    return {values + rows * dim_, values + rows * (dim_ + 1), values};
  }

  /// Whether the task's last run is done with this one.
  bool complete(std::size_t task) {
    return missing_[task].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  std::size_t dim_ = 0;
  std::size_t row_floats_ = 0;  ///< Whole lines of the cache: members do not share any.
  hwy::AlignedFreeUniquePtr<float[]> sums_;
  std::size_t floats_ = 0;
  std::vector<std::atomic<std::size_t>> missing_;
};

/// A layer's work, shared out run by run. The member that ends a task's last run merges them.
class LayerWork {
 public:
  LayerWork(const BatchPlan& plan, const BlockCache& cache, const BlockAttention& attention,
            const BlockQueries& queries, RunResults* results)
      : plan_(plan),
        cache_(cache),
        rows_(cache, queries),
        kernel_(cache),
        results_(*results),
        window_(attention.window),
        factor_(attention.scale * std::numbers::log2e_v<float>),
        soft_cap_(attention.soft_cap * std::numbers::log2e_v<float>) {}

  /// Takes runs until none is left; for several threads at once.
  void take_runs() noexcept;

 private:
  void attend(const RunPlace& place, const AttendTask& task);
  void merge(const AttendTask& task);
  void merge_row(const AttendTask& task, std::size_t head, std::size_t query, std::size_t row);
  [[nodiscard]] RowSums sums_of(const RunPlace& run, const AttendTask& task) const {
    return results_.of(run, task.heads * task.queries * rows_.group());
  }

  const BatchPlan& plan_;
  const BlockCache& cache_;
  LayerRows rows_;
  RunKernel kernel_;
  RunResults& results_;
  std::size_t window_;
  float factor_;
  float soft_cap_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace nearkv

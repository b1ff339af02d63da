// A layer's work as the members of a team share it out.
#pragma once

#include <hwy/aligned_allocator.h>

#include <atomic>
#include <cstddef>
#include <numbers>
#include <vector>

#include "blocks/batch_plan.hpp"
#include "blocks/block_run.hpp"
#include "nearkv/block_attention.hpp"

namespace nearkv {

/// Where the runs of a layer leave what they summed, and how many of a task's are missing.
class RunResults {
 public:
  /// Room for a plan's runs, each of `group` rows of `dim` channels. Throws std::bad_alloc.
  void reset(const BatchPlan& plan, std::size_t group, std::size_t dim);

  [[nodiscard]] RowSums of(std::size_t run) const {
    float* const values = sums_.get() + run * stride_;
    return {values + group_ * dim_, values + group_ * (dim_ + 1), values};
  }

  /// Whether the task's last run is done with this one.
  bool complete(std::size_t task) {
    return missing_[task].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  std::size_t group_ = 0;
  std::size_t dim_ = 0;
  std::size_t stride_ = 0;
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
        queries_(queries),
        kernel_(cache),
        results_(*results),
        factor_(attention.scale * std::numbers::log2e_v<float>),
        soft_cap_(attention.soft_cap * std::numbers::log2e_v<float>) {}

  /// Takes runs until none is left; for several threads at once.
  void take_runs() noexcept;

 private:
  void attend(std::size_t index, const AttendTask& task);
  void merge(const AttendTask& task);

  const BatchPlan& plan_;
  const BlockCache& cache_;
  const BlockQueries& queries_;
  RunKernel kernel_;
  RunResults& results_;
  float factor_;
  float soft_cap_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace nearkv

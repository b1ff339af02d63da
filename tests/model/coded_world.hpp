// Contexts in pages with codes, and what a command read of them.
#ifndef NEARKV_TESTS_MODEL_CODED_WORLD_HPP_
#define NEARKV_TESTS_MODEL_CODED_WORLD_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "attention.hpp"
#include "topics.hpp"

namespace nearkv::test {

inline AttendOptions bounded(float error) {
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_BOUNDED;
  options.error = error;
  return options;
}

inline uint64_t bursts(const nkv_completion& completion) {
  return uint64_t{completion.stream_bursts} + completion.refine_bursts + completion.exact_bursts +
         completion.value_bursts;
}

inline bool is_dense(const AttendResult& result) {
  return (result.completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0;
}

/// A scan's bursts: half a header, CODE_SUMMARY and K_SIGNS of every page, K_GAINS once.
inline uint64_t scan_bursts(uint64_t pages, uint64_t head_dim, uint64_t value_dim) {
  return pages * (1 + (burst_aligned(64 + head_dim + value_dim) + 8 * head_dim) / 64) +
         burst_aligned(head_dim) / 64;
}

struct World {
  World(const TopicOptions& options, uint64_t seed, PageForm form = kRawForm,
        std::span<const int8_t> gains = {})
      : random(seed), topics(options, random), data(topics.context(random)) {
    sequence = append_coded(device, data.keys, data.values, form, gains);
  }

  AttendResult run(const Rows& query, const AttendOptions& options) {
    return attend(device, sequence, query, data.values.dim, options);
  }

  std::vector<ReferenceRow> reference(const Rows& query, const AttendOptions& options = {}) const {
    return reference_attention(data.keys, data.values, query, data.values.dim, options);
  }

  Device device;
  Random random;
  Topics topics;
  TopicData data;
  Sequence sequence;
};

inline bool is_capped(const AttendResult& result) {
  return (result.completion.flags & NKV_COMPLETION_FLAG_CAPPED) != 0;
}

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_CODED_WORLD_HPP_

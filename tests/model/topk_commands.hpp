// TOPK from the host's side.
#ifndef NEARKV_TESTS_MODEL_TOPK_COMMANDS_HPP_
#define NEARKV_TESTS_MODEL_TOPK_COMMANDS_HPP_

#include <cstdint>
#include <vector>

#include "device.hpp"
#include "sequence.hpp"

namespace nearkv::test {

struct TopkOptions {
  uint8_t mode = NKV_SELECT_FULL;
  uint16_t top_k = 16;
  uint8_t z = 0;
  uint32_t tokens = 0;  ///< 0: all tokens of the sequence.
  uint32_t window = 0;
  uint8_t sinks = 0;
  float scale = 1.0f;
  std::vector<float> weights{};  ///< INDEXER: per head.
};

struct TopkRow {
  std::vector<uint32_t> ids;
  std::vector<float> scores;

  friend bool operator==(const TopkRow&, const TopkRow&) = default;
};

struct TopkResult {
  nkv_completion completion;
  std::vector<TopkRow> rows;   ///< As many entries as the row's count says.
  bool has_clean_tail = true;  ///< Unused places hold id 2^32 − 1 and score −∞.
};

nkv_topk_command topk_command(Device& device, const Sequence& sequence, const Rows& query,
                              const TopkOptions& options);

/// Places the command, runs it and reads its result; the arena stays as it was before.
TopkResult topk(Device& device, const Sequence& sequence, const Rows& query,
                const TopkOptions& options);

/// The part of `truth`'s ids that `found` has.
double recall(const TopkRow& found, const TopkRow& truth);

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_TOPK_COMMANDS_HPP_

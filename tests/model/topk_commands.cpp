#include "topk_commands.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nearkv::test {

namespace {

uint32_t result_rows(const nkv_topk_command& command) {
  return command.mode == NKV_SELECT_INDEXER ? 1 : command.group;
}

TopkResult read_result(const Device& device, const nkv_topk_command& command,
                       const nkv_completion& completion) {
  TopkResult result{.completion = completion, .rows = {}};
  const uint32_t rows = result_rows(command);
  const uint32_t k = command.top_k;
  const uint64_t part = burst_aligned(uint64_t{rows} * k * sizeof(uint32_t));
  const auto ids = device.read<uint32_t>(command.result, size_t{rows} * k);
  const auto scores = device.read<float>(command.result + part, size_t{rows} * k);
  const auto counts = device.read<uint32_t>(command.result + 2 * part, rows);
  for (size_t row = 0; row < rows; ++row) {
    TopkRow& read = result.rows.emplace_back();
    for (size_t i = 0; i < k; ++i) {
      if (i < counts[row]) {
        read.ids.push_back(ids[row * k + i]);
        read.scores.push_back(scores[row * k + i]);
      } else {
        result.has_clean_tail = result.has_clean_tail && ids[row * k + i] == ~uint32_t{0} &&
                                scores[row * k + i] == -std::numeric_limits<float>::infinity();
      }
    }
  }
  return result;
}

}  // namespace

nkv_topk_command topk_command(Device& device, const Sequence& sequence, const Rows& query,
                              const TopkOptions& options) {
  nkv_topk_command command{};
  command.opcode = NKV_OPCODE_TOPK;
  command.head_dim = static_cast<uint16_t>(query.dim);
  command.tokens = options.tokens != 0 ? options.tokens : sequence.tokens;
  command.window = options.window;
  command.query = device.put<std::byte>(query.bytes());
  command.page_list = sequence.page_list;
  command.scale = options.scale;
  command.sinks = options.sinks;
  command.top_k = options.top_k;
  command.mode = options.mode;
  command.group = static_cast<uint8_t>(query.count);
  command.query_dtype = query.dtype;
  command.z = options.z;
  if (!options.weights.empty()) command.weights = device.put<float>(options.weights);
  const uint64_t part =
      burst_aligned(uint64_t{result_rows(command)} * command.top_k * sizeof(uint32_t));
  command.result = device.allocate(2 * part + result_rows(command) * sizeof(uint32_t));
  return command;
}

TopkResult topk(Device& device, const Sequence& sequence, const Rows& query,
                const TopkOptions& options) {
  const uint64_t mark = device.mark();
  const auto command = topk_command(device, sequence, query, options);
  const auto completion = device.run(command);
  auto result = read_result(device, command, completion);
  device.release(mark);
  return result;
}

double recall(const TopkRow& found, const TopkRow& truth) {
  std::vector<uint32_t> sorted = found.ids;
  std::sort(sorted.begin(), sorted.end());
  const auto hits = std::count_if(truth.ids.begin(), truth.ids.end(), [&](uint32_t id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  });
  return truth.ids.empty() ? 1.0
                           : static_cast<double>(hits) / static_cast<double>(truth.ids.size());
}

}  // namespace nearkv::test

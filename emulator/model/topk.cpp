// TOPK: field and address checks, dispatch by mode, results to memory.
#include "topk.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "rounding.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kNoToken = std::numeric_limits<uint32_t>::max();

bool is_query_dtype(const nkv_topk_command& command) {
  return command.query_dtype == NKV_DTYPE_BF16 || command.query_dtype == NKV_DTYPE_FP16 ||
         command.query_dtype == NKV_DTYPE_FP32 ||
         (command.query_dtype == NKV_DTYPE_FP8_E4M3 && command.mode == NKV_SELECT_INDEXER);
}

Verdict check_fields(const nkv_topk_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_topk_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (!is_usable_scale(command.scale)) return bad_field(offsetof(nkv_topk_command, scale));
  if (!is_query_dtype(command)) return bad_field(offsetof(nkv_topk_command, query_dtype));
  return {};
}

// Ids, scores and counts, one after the other, each from a burst boundary.
struct ResultPlaces {
  uint64_t scores;
  uint64_t counts;
  uint64_t end;
};

ResultPlaces result_places(const nkv_topk_command& command) {
  const uint64_t rows = command.mode == NKV_SELECT_INDEXER ? 1 : command.group;
  const uint64_t row_bytes = rows * command.top_k * sizeof(uint32_t);
  const uint64_t counts = 2 * burst_aligned(row_bytes);
  return {.scores = burst_aligned(row_bytes),
          .counts = counts,
          .end = counts + rows * sizeof(uint32_t)};
}

void store_result(const Domain& domain, const nkv_topk_command& command,
                  const std::vector<std::vector<FoundToken>>& rows) {
  std::vector<uint32_t> ids(rows.size() * command.top_k, kNoToken);
  std::vector<float> scores(ids.size(), -std::numeric_limits<float>::infinity());
  std::vector<uint32_t> counts;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i < rows[row].size(); ++i) {
      ids[row * command.top_k + i] = rows[row][i].token;
      scores[row * command.top_k + i] = rows[row][i].score;
    }
    counts.push_back(static_cast<uint32_t>(rows[row].size()));
  }
  const ResultPlaces places = result_places(command);
  domain.window.store<uint32_t>(command.result, ids);
  domain.window.store<float>(command.result + places.scores, scores);
  domain.window.store<uint32_t>(command.result + places.counts, counts);
}

}  // namespace

TopkAnswer topk_by_mode(const TopkTask& task) {
  if (task.command.mode == NKV_SELECT_INDEXER) return topk_indexer(task);
  if (task.command.mode == NKV_SELECT_FULL) return topk_full(task);
  std::optional<CodedList> list;
  const Verdict verdict = CodedList::open(task.domain, task.input, task.command.head_dim,
                                          /*value_dim=*/std::nullopt, &list);
  if (!verdict.ok()) return {.verdict = verdict};
  return list ? topk_by_codes(task, std::move(*list)) : topk_full(task);
}

double score_value(const TopkTask& task, size_t row, int64_t score) {
  const int power = task.input.query.exponent(row) + task.input.exponents.key - 301;
  return std::ldexp(static_cast<double>(score), power);
}

std::vector<FoundToken> found_by_score(const TopkTask& task, size_t row,
                                       std::vector<ScoredToken<int64_t>> tokens) {
  std::vector<FoundToken> found;
  for (const auto& best : best_tokens(std::move(tokens), task.command.top_k)) {
    const double score =
        score_value(task, row, best.score) * static_cast<double>(task.command.scale);
    found.push_back({.token = best.token, .score = nearest_binary32(score)});
  }
  return found;
}

Outcome topk(const Domain& domain, const nkv_topk_command& command) {
  return topk(domain, command, topk_by_mode);
}

Outcome topk(const Domain& domain, const nkv_topk_command& command,
             const std::function<TopkAnswer(const TopkTask&)>& way) {
  Verdict verdict = check_fields(command);
  if (!verdict.ok()) return failure(verdict);
  verdict = check_scan_addresses(domain, command);
  if (!verdict.ok()) return failure(verdict);
  if (command.mode == NKV_SELECT_INDEXER) {
    verdict = domain.window.check(command.weights, command.group * sizeof(float));
    if (!verdict.ok()) return failure(verdict);
  }
  verdict = domain.window.check(command.result, result_places(command).end);
  if (!verdict.ok()) return failure(verdict);
  ScanInput input;
  verdict = read_scan_input(domain, command, &input);
  if (!verdict.ok()) return failure(verdict);

  const TopkAnswer answer = way({.domain = domain, .command = command, .input = input});
  if (!answer.verdict.ok()) return failure(answer.verdict);
  store_result(domain, command, answer.rows);

  Outcome outcome{.traffic = answer.traffic, .flags = answer.flags};
  for (const auto& row : answer.rows) outcome.count += static_cast<uint32_t>(row.size());
  return outcome;
}

}  // namespace nearkv::model

// ATTEND: field and address checks, dispatch by mode, results to memory.
#include "attend.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "attend_codes.hpp"
#include "coded_list.hpp"
#include "commands.hpp"
#include "rounding.hpp"

namespace nearkv::model {

namespace {

bool is_query_dtype(uint8_t dtype) {
  return dtype == NKV_DTYPE_BF16 || dtype == NKV_DTYPE_FP16 || dtype == NKV_DTYPE_FP32;
}

Verdict check_fields(const nkv_attend_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_attend_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (!is_usable_scale(command.scale)) return bad_field(offsetof(nkv_attend_command, scale));
  if (!std::isfinite(command.soft_cap) || command.soft_cap < 0.0f) {
    return bad_field(offsetof(nkv_attend_command, soft_cap));
  }
  if (!is_query_dtype(command.query_dtype)) {
    return bad_field(offsetof(nkv_attend_command, query_dtype));
  }
  const bool is_error_usable = command.error > 0.0f && command.error <= 1.0f;
  if (command.mode == NKV_ATTEND_MODE_BOUNDED && !is_error_usable) {
    return bad_field(offsetof(nkv_attend_command, error));
  }
  return {};
}

// O, LSE and bound, one after the other, each from a burst boundary.
struct ResultPlaces {
  uint64_t log_sum_exp;
  uint64_t bound;
  uint64_t end;
};

ResultPlaces result_places(const nkv_attend_command& command) {
  const bool is_bf16 = (command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0;
  const uint64_t element_bytes = is_bf16 ? sizeof(uint16_t) : sizeof(float);
  const uint64_t output_bytes = uint64_t{command.group} * command.value_dim * element_bytes;
  const uint64_t row_bytes = uint64_t{command.group} * sizeof(float);
  const uint64_t log_sum_exp = burst_aligned(output_bytes);
  const uint64_t bound = log_sum_exp + burst_aligned(row_bytes);
  return {.log_sum_exp = log_sum_exp, .bound = bound, .end = bound + row_bytes};
}

void store_result(const Domain& domain, const nkv_attend_command& command,
                  const std::vector<AttendRow>& rows) {
  std::vector<float> output;
  std::vector<float> log_sum_exp;
  std::vector<float> bound;
  for (const AttendRow& row : rows) {
    output.insert(output.end(), row.output.begin(), row.output.end());
    log_sum_exp.push_back(row.log_sum_exp);
    bound.push_back(row.bound);
  }
  const ResultPlaces places = result_places(command);
  if ((command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0) {
    std::vector<uint16_t> rounded(output.size());
    std::transform(output.begin(), output.end(), rounded.begin(), round_to_bf16);
    domain.window.store<uint16_t>(command.result, rounded);
  } else {
    domain.window.store<float>(command.result, output);
  }
  domain.window.store<float>(command.result + places.log_sum_exp, log_sum_exp);
  domain.window.store<float>(command.result + places.bound, bound);
}

}  // namespace

AttendAnswer attend_by_mode(const AttendTask& task) {
  const nkv_attend_command& command = task.command;
  if (command.mode == NKV_ATTEND_MODE_DENSE) return attend_dense(task);
  std::optional<CodedList> list;
  if (task.scale.cap() == 0) {
    const Verdict verdict =
        CodedList::open(task.domain, task.input, command.head_dim, command.value_dim, &list);
    if (!verdict.ok()) return {.verdict = verdict};
  }
  return list ? attend_by_codes(task, std::move(*list)) : fall_back_to_dense(task, {});
}

AttendAnswer fall_back_to_dense(const AttendTask& task, const Traffic& spent) {
  AttendAnswer dense = attend_dense(task);
  dense.traffic.stream += spent.stream;
  dense.traffic.refine += spent.refine;
  dense.traffic.exact += spent.exact;
  dense.traffic.value += spent.value;
  dense.flags |= NKV_COMPLETION_FLAG_DENSE_FALLBACK;
  return dense;
}

AttendRow finish_row(const AttendTask& task, const RowSoftmax& softmax) {
  return {.output = softmax.output(task.input.exponents.value),
          .log_sum_exp = softmax.log_sum_exp(task.base2())};
}

Outcome attend(const Domain& domain, const nkv_attend_command& command) {
  return attend(domain, command, attend_by_mode);
}

Outcome attend(const Domain& domain, const nkv_attend_command& command,
               const std::function<AttendAnswer(const AttendTask&)>& way) {
  Verdict verdict = check_fields(command);
  if (!verdict.ok()) return failure(verdict);
  verdict = check_scan_addresses(domain, command);
  if (!verdict.ok()) return failure(verdict);
  verdict = domain.window.check(command.result, result_places(command).end);
  if (!verdict.ok()) return failure(verdict);
  ScanInput input;
  verdict = read_scan_input(domain, command, &input);
  if (!verdict.ok()) return failure(verdict);

  const AttendAnswer answer =
      way({.domain = domain,
           .command = command,
           .input = input,
           .scale = LogitScale(command.scale, command.soft_cap, input.exponents.key)});
  if (!answer.verdict.ok()) return failure(answer.verdict);
  store_result(domain, command, answer.rows);

  Outcome outcome{.count = command.group,
                  .traffic = answer.traffic,
                  .flags = answer.flags,
                  .rounds = answer.rounds};
  for (const AttendRow& row : answer.rows) outcome.bound = std::max(outcome.bound, row.bound);
  return outcome;
}

}  // namespace nearkv::model

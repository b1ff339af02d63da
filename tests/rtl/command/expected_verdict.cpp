#include "expected_verdict.hpp"

#include <bit>
#include <cmath>
#include <initializer_list>

#include "domain.hpp"
#include "scan_input.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using model::bad_field;
using model::burst_aligned;
using model::Verdict;

template <typename Command>
Command as(const Bytes& bytes) {
  return std::bit_cast<Command>(bytes);
}

// What a command may reach.
class Window {
 public:
  explicit Window(std::uint64_t bytes) : bytes_(bytes) {}

  Verdict holds(std::uint64_t address, std::uint64_t bytes) const {
    if (bytes == 0 || (bytes <= bytes_ && address <= bytes_ - bytes)) return {};
    return {NKV_STATUS_ADDRESS_FAULT, address};
  }

 private:
  std::uint64_t bytes_;
};

Verdict first_failure(std::initializer_list<Verdict> verdicts) {
  for (const Verdict& verdict : verdicts) {
    if (!verdict.ok()) return verdict;
  }
  return {};
}

Verdict expected_nop(const Bytes& bytes) {
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (i != 2 && i != 3 && bytes[i] != 0) return bad_field(i);
  }
  return {};
}

Verdict expected_pages(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_pages_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  return window.holds(command.source, std::uint64_t{command.count} * sizeof(nkv_page_entry));
}

Verdict expected_moved_pages(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_pages_command>(bytes);
  const bool transcodes = command.opcode == NKV_OPCODE_TRANSCODE;
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (transcodes && command.slot_bytes == 0) {
    return bad_field(offsetof(nkv_pages_command, slot_bytes));
  }
  if (command.count > kListPages) {
    return bad_field(offsetof(nkv_pages_command, count));
  }
  if (transcodes && command.codec != NKV_CODEC_NONE && command.codec < NKV_CODEC_INT8) {
    return {NKV_STATUS_UNSUPPORTED, 0};
  }
  const std::uint64_t table_bytes = std::uint64_t{command.count} * sizeof(nkv_page_entry);
  const std::uint64_t sizes_bytes = transcodes ? command.count * sizeof(std::uint32_t) : 0;
  return first_failure({window.holds(command.source, table_bytes),
                        window.holds(command.destination, table_bytes),
                        window.holds(command.result, sizes_bytes)});
}

Verdict expected_append(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_append_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_append_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  const bool is_bf16 = command.dtype == NKV_DTYPE_BF16;
  const bool has_values = command.v_form != NKV_ROW_FORM_NONE;
  if (has_values ? command.value_dim == 0 : command.value_dim > command.head_dim) {
    return bad_field(offsetof(nkv_append_command, value_dim));
  }
  if (command.dtype == NKV_DTYPE_FP32) return bad_field(offsetof(nkv_append_command, dtype));
  if (command.k_form == NKV_ROW_FORM_NONE || (command.k_form == NKV_ROW_FORM_DELTA4 && !is_bf16)) {
    return bad_field(offsetof(nkv_append_command, k_form));
  }
  if (command.v_form == NKV_ROW_FORM_DELTA4 && !is_bf16) {
    return bad_field(offsetof(nkv_append_command, v_form));
  }
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_append_command, head_dim));
  if (command.value_dim > kChannels) return bad_field(offsetof(nkv_append_command, value_dim));
  if (command.tokens > kListTokens) return bad_field(offsetof(nkv_append_command, tokens));
  const std::uint64_t element = nkv_element_bytes(command.dtype);
  const bool has_scales = (command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0;
  const bool has_codes = (command.flags & NKV_APPEND_FLAG_CODES) != 0;
  const std::uint64_t keys = span_bytes(command.tokens, command.key_stride,
                                        command.head_dim * element + (has_scales ? 4 : 0));
  const std::uint64_t values =
      span_bytes(command.tokens, command.value_stride, command.value_dim * element);
  return first_failure(
      {window.holds(command.keys, keys),
       has_values ? window.holds(command.values, values) : Verdict{},
       window.holds(command.page_list, command.tokens / NKV_PAGE_TOKENS * sizeof(nkv_page_entry) +
                                           (has_codes ? command.head_dim : 0))});
}

bool is_query_dtype(std::uint8_t dtype) {
  return dtype == NKV_DTYPE_BF16 || dtype == NKV_DTYPE_FP16 || dtype == NKV_DTYPE_FP32;
}

template <typename Command>
Verdict expected_scan_limits(const Command& command) {
  if (command.tokens > kListTokens) return bad_field(offsetof(Command, tokens));
  if (command.group > kRows) return bad_field(offsetof(Command, group));
  if (!model::is_usable_scale(command.scale)) return bad_field(offsetof(Command, scale));
  return {};
}

template <typename Command>
Verdict expected_scan_addresses(const Command& command, std::uint64_t result_bytes,
                                const Window& window) {
  return first_failure(
      {window.holds(command.query, model::query_bytes(command)),
       window.holds(command.page_list, model::list_entries(command) * sizeof(nkv_page_entry)),
       window.holds(command.result, result_bytes)});
}

Verdict expected_topk(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_topk_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_topk_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_topk_command, head_dim));
  verdict = expected_scan_limits(command);
  if (!verdict.ok()) return verdict;
  const bool is_indexer = command.mode == NKV_SELECT_INDEXER;
  if (!is_indexer && command.mode != NKV_SELECT_FULL) return {NKV_STATUS_UNSUPPORTED, 0};
  if (!is_query_dtype(command.query_dtype) &&
      !(is_indexer && command.query_dtype == NKV_DTYPE_FP8_E4M3)) {
    return bad_field(offsetof(nkv_topk_command, query_dtype));
  }
  // INDEXER has a weight for each row of the query, and one row of results.
  const std::uint64_t weights = is_indexer ? command.group * sizeof(float) : 0;
  const std::uint64_t rows = is_indexer ? 1 : command.group;
  const std::uint64_t result_bytes =
      2 * burst_aligned(rows * command.top_k * sizeof(float)) + rows * sizeof(std::uint32_t);
  return first_failure({expected_scan_addresses(command, 0, window),
                        window.holds(command.weights, weights),
                        window.holds(command.result, result_bytes)});
}

Verdict expected_attend(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_attend_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_attend_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_attend_command, head_dim));
  if (command.value_dim > kChannels) return bad_field(offsetof(nkv_attend_command, value_dim));
  verdict = expected_scan_limits(command);
  if (!verdict.ok()) return verdict;
  if (!std::isfinite(command.soft_cap) || command.soft_cap < 0) {
    return bad_field(offsetof(nkv_attend_command, soft_cap));
  }
  if (command.mode != NKV_ATTEND_MODE_DENSE) return {NKV_STATUS_UNSUPPORTED, 0};
  if (!is_query_dtype(command.query_dtype)) {
    return bad_field(offsetof(nkv_attend_command, query_dtype));
  }
  const bool is_short = (command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0;
  const std::uint64_t output =
      std::uint64_t{command.group} * command.value_dim * (is_short ? 2 : sizeof(float));
  const std::uint64_t numbers = command.group * sizeof(float);
  return expected_scan_addresses(command, burst_aligned(output) + burst_aligned(numbers) + numbers,
                                 window);
}

Verdict expected_read(const Bytes& bytes) {
  const auto command = as<nkv_read_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_read_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  const bool has_planes = command.planes != 0;
  const bool is_of_codes = (command.flags & NKV_READ_FLAG_CODES) != 0;
  if (is_of_codes != has_planes) return bad_field(offsetof(nkv_read_command, planes));
  if (std::uint64_t{command.first} + command.count > kListTokens) {
    return bad_field(offsetof(nkv_read_command, count));
  }
  if (is_of_codes) return {NKV_STATUS_UNSUPPORTED, 0};
  return {};
}

Verdict expected_gather(const Bytes& bytes, const Window& window) {
  const auto command = as<nkv_gather_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_gather_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.tokens > kListTokens) return bad_field(offsetof(nkv_gather_command, tokens));
  return window.holds(command.ids, command.count * sizeof(std::uint32_t));
}

}  // namespace

Verdict expected_verdict(const Bytes& bytes, std::uint64_t window_bytes) {
  const Window window(window_bytes);
  switch (bytes[0]) {
    case NKV_OPCODE_NOP:
      return expected_nop(bytes);
    case NKV_OPCODE_SCRUB:
    case NKV_OPCODE_ERASE:
      return expected_pages(bytes, window);
    case NKV_OPCODE_COPY:
    case NKV_OPCODE_TRANSCODE:
      return expected_moved_pages(bytes, window);
    case NKV_OPCODE_APPEND:
      return expected_append(bytes, window);
    case NKV_OPCODE_READ:
      return expected_read(bytes);
    case NKV_OPCODE_GATHER:
      return expected_gather(bytes, window);
    case NKV_OPCODE_TOPK:
      return expected_topk(bytes, window);
    case NKV_OPCODE_ATTEND:
      return expected_attend(bytes, window);
    default:
      return {NKV_STATUS_BAD_OPCODE, 0};
  }
}

}  // namespace nearkv::rtl_test

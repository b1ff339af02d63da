// ATTEND and TOPK: from command fields to the kernels, and results into the window.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "attend/topk.hpp"
#include "codes/search_by_codes.hpp"
#include "device/engine.hpp"
#include "page/elements.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

bool is_query_dtype(std::uint8_t dtype) {
  return dtype == NKV_DTYPE_BF16 || dtype == NKV_DTYPE_FP16 || dtype == NKV_DTYPE_FP32;
}

/// A normal number: subnormals count as zero.
bool is_scale(float scale) { return std::isnormal(scale); }

void store_float(float value, std::byte* to) { std::memcpy(to, &value, sizeof(value)); }

/// Query rows and page list of an ATTEND or TOPK.
template <typename Command>
Outcome check_inputs(const Command& command, const Window& window) {
  const std::uint64_t row_bytes =
      nkv_row_bytes(NKV_ROW_FORM_RAW, command.query_dtype, command.head_dim);
  if (!window.contains(command.query, command.group * row_bytes)) {
    return {Status::kAddressFault, command.query};
  }
  const std::uint64_t pages =
      (std::uint64_t{command.tokens} + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
  if (!window.contains(command.page_list, pages * sizeof(nkv_page_entry))) {
    return {Status::kAddressFault, command.page_list};
  }
  return {};
}

/// O, LSE and bound of one ATTEND, in the command's formats.
class AttendOutput {
 public:
  AttendOutput(const nkv_attend_command& command, const Window& window)
      : bf16_((command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0),
        base2_((command.flags & NKV_ATTEND_FLAG_LSE_BASE2) != 0),
        rows_(command.group),
        dim_(command.value_dim) {
    const std::uint64_t output_bytes = whole_bursts(rows_ * dim_ * element_bytes());
    const std::uint64_t row_bytes = whole_bursts(rows_ * sizeof(float));
    bytes_ = window.at(command.result, output_bytes + row_bytes + rows_ * sizeof(float));
    lse_at_ = output_bytes;
    bound_at_ = output_bytes + row_bytes;
  }

  [[nodiscard]] bool fits() const { return !bytes_.empty(); }

  void write(const AttendResult& result) {
    const SoftmaxState& state = result.state;
    const std::vector<std::uint16_t> order =
        state.dim == 0 ? std::vector<std::uint16_t>() : kernel_order(state.dim);
    for (std::size_t row = 0; row < rows_; ++row) {
      const float sum = state.sum[row];
      for (std::size_t channel = 0; channel < dim_; ++channel) {
        store_output(row * dim_ + channel,
                     sum > 0 ? state.values(row)[order[channel]] / sum : 0.0F);
      }
      const float lse2 =
          sum > 0 ? state.maximum[row] + std::log2(sum) : -std::numeric_limits<float>::infinity();
      store_float(base2_ ? lse2 : lse2 * std::numbers::ln2_v<float>,
                  bytes_.data() + lse_at_ + row * sizeof(float));
      store_float(result.bound.empty() ? 0.0F : result.bound[row],
                  bytes_.data() + bound_at_ + row * sizeof(float));
    }
  }

 private:
  [[nodiscard]] std::size_t element_bytes() const { return bf16_ ? 2 : 4; }

  void store_output(std::size_t index, float value) {
    if (bf16_) {
      const std::uint16_t bits = to_bf16(value);
      std::memcpy(bytes_.data() + 2 * index, &bits, sizeof(bits));
    } else {
      store_float(value, bytes_.data() + 4 * index);
    }
  }

  bool bf16_;
  bool base2_;
  std::size_t rows_;
  std::size_t dim_;
  std::span<std::byte> bytes_;
  std::uint64_t lse_at_ = 0;
  std::uint64_t bound_at_ = 0;
};

std::uint32_t saturate(std::uint64_t count) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

void report(const Traffic& traffic, bool nonfinite, nkv_completion* completion) {
  completion->stream_bursts = saturate(traffic.stream);
  completion->refine_bursts = saturate(traffic.refine);
  completion->exact_bursts = saturate(traffic.exact);
  completion->value_bursts = saturate(traffic.value);
  if (nonfinite) completion->flags |= NKV_COMPLETION_FLAG_NONFINITE;
}

Outcome check_attend(const nkv_attend_command& command) {
  using Command = nkv_attend_command;
  if (!is_scale(command.scale)) return bad_field(offsetof(Command, scale));
  if (!std::isfinite(command.soft_cap) || command.soft_cap < 0) {
    return bad_field(offsetof(Command, soft_cap));
  }
  if (!is_query_dtype(command.query_dtype)) {
    return bad_field(offsetof(Command, query_dtype));
  }
  if (command.mode == NKV_ATTEND_MODE_BOUNDED && !(command.error > 0 && command.error <= 1)) {
    return bad_field(offsetof(Command, error));
  }
  return {};
}

Outcome check_top_k(const nkv_topk_command& command) {
  using Command = nkv_topk_command;
  const bool indexer = command.mode == NKV_SELECT_INDEXER;
  if (!is_scale(command.scale)) return bad_field(offsetof(Command, scale));
  if (!is_query_dtype(command.query_dtype) &&
      !(indexer && command.query_dtype == NKV_DTYPE_FP8_E4M3)) {
    return bad_field(offsetof(Command, query_dtype));
  }
  return {};
}

/// ids, scores and counts of one TOPK.
class TopKOutput {
 public:
  TopKOutput(const nkv_topk_command& command, const Window& window)
      : rows_(command.mode == NKV_SELECT_INDEXER ? 1 : command.group), top_k_(command.top_k) {
    const std::uint64_t table_bytes = whole_bursts(rows_ * top_k_ * sizeof(std::uint32_t));
    bytes_ = window.at(command.result, 2 * table_bytes + rows_ * sizeof(std::uint32_t));
    scores_at_ = table_bytes;
    counts_at_ = 2 * table_bytes;
  }

  [[nodiscard]] bool fits() const { return !bytes_.empty(); }

  /// Returns the number of tokens written over all rows.
  std::uint32_t write(const TopKResult& result, double scale) {
    std::uint32_t total = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      const std::vector<RankedToken>& best = result.rows[row];
      for (std::size_t i = 0; i < top_k_; ++i) {
        const std::size_t at = (row * top_k_ + i) * sizeof(std::uint32_t);
        const bool present = i < best.size();
        const std::uint32_t id = present ? best[i].token : ~std::uint32_t{0};
        std::memcpy(bytes_.data() + at, &id, sizeof(id));
        store_float(present ? static_cast<float>(best[i].score * scale)
                            : -std::numeric_limits<float>::infinity(),
                    bytes_.data() + scores_at_ + at);
      }
      const auto count = static_cast<std::uint32_t>(best.size());
      std::memcpy(bytes_.data() + counts_at_ + row * sizeof(count), &count, sizeof(count));
      total += count;
    }
    return total;
  }

 private:
  std::size_t rows_;
  std::size_t top_k_;
  std::span<std::byte> bytes_;
  std::uint64_t scores_at_ = 0;
  std::uint64_t counts_at_ = 0;
};

}  // namespace

Outcome Engine::attend(const nkv_attend_command& command, const Window& window,
                       nkv_completion* completion) {
  Outcome outcome = check_attend(command);
  if (outcome.ok()) outcome = check_inputs(command, window);
  if (!outcome.ok()) return outcome;
  AttendOutput output(command, window);
  if (!output.fits()) return {Status::kAddressFault, command.result};
  outcome =
      query_.load(window, command.query, command.group, command.head_dim, command.query_dtype);
  if (outcome.ok()) outcome = list_.load(window, command.page_list, command.tokens);
  if (!outcome.ok()) return outcome;

  const Visibility visibility{command.tokens, command.window, command.sinks};
  for (std::size_t page = 0; page < list_.pages(); ++page) {
    if (visibility.mask(page) == 0) continue;
    // The first page that is seen decides; if it is no page at all, the mode's own pass says so.
    PageView first;
    if (list_.open_any(page, HeaderDepth::kScan, &first) == Status::kOk) {
      list_.demand_stored_values(first.header().v_form != NKV_ROW_FORM_NONE);
    }
    break;
  }
  AttendSpec request;
  request.value_dim = command.value_dim;
  request.scale = command.scale;
  request.soft_cap = command.soft_cap;
  request.top_k = command.top_k;
  request.z16 = command.z == 0 ? NKV_USUAL_BOUND_Z : command.z;
  request.error = command.error;
  request.byte_cap = command.byte_cap;
  const AttendContext context{list_, visibility, query_, workers_, &scratch_};
  AttendResult result;
  outcome = attend_by_mode(context, request, command.mode, &codes_, &result);
  if (!outcome.ok()) return outcome;
  output.write(result);
  report(result.traffic, result.nonfinite, completion);
  if (result.dense_fallback) completion->flags |= NKV_COMPLETION_FLAG_DENSE_FALLBACK;
  if (result.capped) completion->flags |= NKV_COMPLETION_FLAG_CAPPED;
  completion->rounds = static_cast<std::uint8_t>(result.rounds);
  completion->count = command.group;
  for (const float bound : result.bound) completion->bound = std::max(completion->bound, bound);
  return {};
}

Outcome Engine::top_k(const nkv_topk_command& command, const Window& window,
                      nkv_completion* completion) {
  Outcome outcome = check_top_k(command);
  if (outcome.ok()) outcome = check_inputs(command, window);
  if (!outcome.ok()) return outcome;
  const bool indexer = command.mode == NKV_SELECT_INDEXER;
  if (indexer && !window.contains(command.weights, command.group * sizeof(float))) {
    return {Status::kAddressFault, command.weights};
  }
  TopKOutput output(command, window);
  if (!output.fits()) return {Status::kAddressFault, command.result};
  outcome =
      query_.load(window, command.query, command.group, command.head_dim, command.query_dtype);
  if (outcome.ok()) outcome = list_.load(window, command.page_list, command.tokens);
  if (!outcome.ok()) return outcome;

  const Visibility visibility{command.tokens, command.window, command.sinks};
  TopKResult result;
  if (indexer) {
    std::vector<float> weights(command.group);
    const std::span<std::byte> bytes = window.at(command.weights, command.group * sizeof(float));
    std::memcpy(weights.data(), bytes.data(), bytes.size());
    for (std::size_t row = 0; row < weights.size(); ++row) {
      if (!std::isfinite(weights[row])) return {Status::kBadQuery, row};
    }
    outcome =
        select_by_indexer(list_, visibility, query_, weights, command.top_k, workers_, &result);
  } else {
    bool is_served = false;
    if (command.mode == NKV_SELECT_STATISTICAL) {
      const unsigned z16 = command.z == 0 ? NKV_USUAL_SEARCH_Z : command.z;
      const SearchSpec request{command.top_k, z16};
      outcome = search_by_codes(list_, visibility, query_, request, workers_, &codes_, &scratch_,
                                &result, &is_served);
    }
    if (outcome.ok() && !is_served) {
      outcome = select_by_full_scan(list_, visibility, query_, command.top_k, workers_, &scratch_,
                                    &result);
    }
  }
  if (!outcome.ok()) return outcome;
  completion->count = output.write(result, static_cast<double>(command.scale));
  report(result.traffic, result.nonfinite, completion);
  return {};
}

}  // namespace nearkv

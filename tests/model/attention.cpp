#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nearkv::test {

namespace {

// The error of a result that holds a NaN or an infinity.
constexpr double kBroken = std::numeric_limits<double>::infinity();

float scale_of(const AttendOptions& options, uint32_t head_dim) {
  return options.scale != 0.0f ? options.scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
}

bool is_visible(const AttendOptions& options, uint32_t tokens, uint32_t token) {
  return token < tokens && (options.window == 0 || uint64_t{token} + options.window >= tokens ||
                            token < options.sinks);
}

std::vector<double> row_numbers(const Rows& rows, size_t row) {
  std::vector<double> numbers;
  for (size_t c = 0; c < rows.dim; ++c) numbers.push_back(rows.at(row, c));
  return numbers;
}

bool is_finite(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

double logit_of(const std::vector<double>& key, const std::vector<double>& query,
                const AttendOptions& options) {
  double sum = 0;
  for (size_t c = 0; c < key.size(); ++c) sum += query[c] * key[c];
  const double logit =
      sum * static_cast<double>(scale_of(options, static_cast<uint32_t>(key.size())));
  const auto cap = static_cast<double>(options.soft_cap);
  return cap > 0 ? cap * std::tanh(logit / cap) : logit;
}

double largest_magnitude(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  return largest;
}

double largest_key(const Rows& keys) {
  double largest = 0;
  for (size_t row = 0; row < keys.count; ++row) {
    largest = std::max(largest, largest_magnitude(row_numbers(keys, row)));
  }
  return largest;
}

// A token that takes part, with its logit in every row.
struct SeenToken {
  uint32_t token;
  std::vector<double> logits;
};

std::vector<SeenToken> seen_tokens(const Rows& keys, const Rows& query,
                                   const AttendOptions& options) {
  const uint32_t tokens = options.tokens != 0 ? options.tokens : keys.count;
  std::vector<std::vector<double>> queries;
  for (uint32_t row = 0; row < query.count; ++row) queries.push_back(row_numbers(query, row));
  std::vector<SeenToken> seen;
  for (uint32_t token = 0; token < tokens; ++token) {
    if (!is_visible(options, tokens, token)) continue;
    const auto key = row_numbers(keys, token);
    if (!is_finite(key)) continue;
    SeenToken& entry = seen.emplace_back(SeenToken{.token = token, .logits = {}});
    for (const auto& row : queries) entry.logits.push_back(logit_of(key, row, options));
  }
  return seen;
}

}  // namespace

nkv_attend_command attend_command(Device& device, const Sequence& sequence, const Rows& query,
                                  uint32_t value_dim, const AttendOptions& options) {
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.flags = options.flags;
  command.head_dim = static_cast<uint16_t>(query.dim);
  command.value_dim = static_cast<uint16_t>(value_dim);
  command.tokens = options.tokens != 0 ? options.tokens : sequence.tokens;
  command.window = options.window;
  command.query = device.put<std::byte>(query.bytes());
  command.page_list = sequence.page_list;
  command.scale = scale_of(options, query.dim);
  command.soft_cap = options.soft_cap;
  command.sinks = options.sinks;
  command.byte_cap = options.byte_cap;
  command.top_k = options.top_k;
  command.mode = options.mode;
  command.group = static_cast<uint8_t>(query.count);
  command.query_dtype = query.dtype;
  command.z = options.z;
  command.error = options.error;
  const uint64_t row_bytes = burst_aligned(query.count * sizeof(float));
  command.result = device.allocate(
      burst_aligned(uint64_t{query.count} * value_dim * sizeof(float)) + 2 * row_bytes);
  return command;
}

AttendResult read_result(const Device& device, const nkv_attend_command& command,
                         const nkv_completion& completion) {
  AttendResult result{.completion = completion, .output = {}, .log_sum_exp = {}, .bound = {}};
  const bool is_bf16 = (command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0;
  const uint8_t dtype = is_bf16 ? NKV_DTYPE_BF16 : NKV_DTYPE_FP32;
  const uint64_t output_bytes =
      uint64_t{command.group} * command.value_dim * nkv_element_bytes(dtype);
  const auto patterns = from_bytes(dtype, device.read<std::byte>(command.result, output_bytes));
  const uint64_t lse = command.result + burst_aligned(output_bytes);
  const uint64_t bound = lse + burst_aligned(command.group * sizeof(float));
  for (uint32_t row = 0; row < command.group; ++row) {
    auto& output = result.output.emplace_back();
    for (uint32_t c = 0; c < command.value_dim; ++c) {
      output.push_back(decode(dtype, patterns[size_t{row} * command.value_dim + c]));
    }
    const uint64_t offset = row * sizeof(float);
    result.log_sum_exp.push_back(static_cast<double>(device.read<float>(lse + offset, 1)[0]));
    result.bound.push_back(static_cast<double>(device.read<float>(bound + offset, 1)[0]));
  }
  return result;
}

AttendResult attend(Device& device, const Sequence& sequence, const Rows& query, uint32_t value_dim,
                    const AttendOptions& options) {
  const uint64_t mark = device.mark();
  const auto command = attend_command(device, sequence, query, value_dim, options);
  const auto completion = device.run(command);
  auto result = read_result(device, command, completion);
  device.release(mark);
  return result;
}

std::vector<ReferenceRow> reference_attention(const Rows& keys, const Rows& values,
                                              const Rows& query, uint32_t value_dim,
                                              const AttendOptions& options) {
  const auto seen = seen_tokens(keys, query, options);
  std::vector<double> largest(query.count, -std::numeric_limits<double>::infinity());
  for (const SeenToken& entry : seen) {
    for (size_t row = 0; row < query.count; ++row) {
      largest[row] = std::max(largest[row], entry.logits[row]);
    }
  }
  std::vector<double> sums(query.count, 0.0);
  ReferenceRow zeros;
  zeros.output.assign(value_dim, 0.0);
  std::vector<ReferenceRow> reference(query.count, zeros);
  for (const SeenToken& entry : seen) {
    const auto value = row_numbers(values, entry.token);
    for (size_t row = 0; row < query.count; ++row) {
      const double weight = std::exp(entry.logits[row] - largest[row]);
      sums[row] += weight;
      for (size_t c = 0; c < value_dim; ++c) {
        if (std::isfinite(value[c])) reference[row].output[c] += weight * value[c];
      }
    }
  }
  const bool is_base2 = (options.flags & NKV_ATTEND_FLAG_LSE_BASE2) != 0;
  const double key = largest_key(keys);
  for (size_t row = 0; row < query.count; ++row) {
    const double log_sum_exp = seen.empty() ? largest[row] : largest[row] + std::log(sums[row]);
    reference[row].log_sum_exp = is_base2 ? log_sum_exp / std::log(2.0) : log_sum_exp;
    const double product = static_cast<double>(scale_of(options, query.dim)) * key *
                           largest_magnitude(row_numbers(query, row));
    reference[row].log_sum_exp_tolerance = kLseAbsolute + kLseRelative * std::abs(log_sum_exp) +
                                           kLseOfProduct * std::abs(product) +
                                           kLseOfCap * static_cast<double>(options.soft_cap);
    if (seen.empty()) continue;
    for (double& element : reference[row].output) element /= sums[row];
  }
  return reference;
}

double output_error(const AttendResult& result, const std::vector<ReferenceRow>& reference) {
  double worst = 0;
  for (size_t row = 0; row < reference.size(); ++row) {
    double largest = 0;
    double difference = 0;
    for (size_t c = 0; c < reference[row].output.size(); ++c) {
      const double expected = reference[row].output[c];
      if (!std::isfinite(result.output[row][c])) return kBroken;
      largest = std::max(largest, std::abs(expected));
      difference = std::max(difference, std::abs(result.output[row][c] - expected));
    }
    if (difference > 0) worst = std::max(worst, difference / largest);
  }
  return worst;
}

double log_sum_exp_error(const AttendResult& result, const std::vector<ReferenceRow>& reference) {
  double worst = 0;
  for (size_t row = 0; row < reference.size(); ++row) {
    const double expected = reference[row].log_sum_exp;
    if (std::isinf(expected) && result.log_sum_exp[row] == expected) continue;
    if (!std::isfinite(result.log_sum_exp[row])) return kBroken;
    worst = std::max(
        worst, std::abs(result.log_sum_exp[row] - expected) / reference[row].log_sum_exp_tolerance);
  }
  return worst;
}

double relative_distance(const std::vector<double>& output, const std::vector<double>& reference) {
  double difference2 = 0;
  double norm2 = 0;
  for (size_t c = 0; c < reference.size(); ++c) {
    difference2 += (output[c] - reference[c]) * (output[c] - reference[c]);
    norm2 += reference[c] * reference[c];
  }
  return difference2 == 0 ? 0.0 : std::sqrt(difference2 / norm2);
}

}  // namespace nearkv::test

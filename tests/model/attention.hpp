// ATTEND from the host's side, and the double-precision attention that it is compared with.
#ifndef NEARKV_TESTS_MODEL_ATTENTION_HPP_
#define NEARKV_TESTS_MODEL_ATTENTION_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device.hpp"
#include "sequence.hpp"

namespace nearkv::test {

/// What an ATTEND command asks for, besides the rows.
struct AttendOptions {
  uint8_t mode = NKV_ATTEND_MODE_DENSE;
  uint8_t flags = 0;
  uint32_t tokens = 0;  ///< 0: all tokens of the sequence.
  uint32_t window = 0;
  uint8_t sinks = 0;
  float scale = 0.0f;  ///< 0: 1 / sqrt(head_dim).
  float soft_cap = 0.0f;
  uint16_t top_k = 0;
  uint8_t byte_cap = 0;
  uint8_t z = 0;
  float error = 0.05f;
};

struct AttendResult {
  nkv_completion completion;
  std::vector<std::vector<double>> output;  ///< [row][value_dim]
  std::vector<double> log_sum_exp;
  std::vector<double> bound;
};

/// The command, its query and result placed in the device; callers may change it before running.
nkv_attend_command attend_command(Device& device, const Sequence& sequence, const Rows& query,
                                  uint32_t value_dim, const AttendOptions& options);

/// What a finished command left at its result.
AttendResult read_result(const Device& device, const nkv_attend_command& command,
                         const nkv_completion& completion);

/// Both, with the arena as it was before.
AttendResult attend(Device& device, const Sequence& sequence, const Rows& query, uint32_t value_dim,
                    const AttendOptions& options = {});

struct ReferenceRow {
  std::vector<double> output;
  double log_sum_exp = 0;            ///< Natural, or base 2 as the flag asks.
  double log_sum_exp_tolerance = 0;  ///< The model's stated LSE error, natural.
};

/// Attention over the first tokens of keys and values in double precision. Keys with a NaN or an
/// infinity take no part, values that are not finite count as zero. With `value_dim` below the
/// values' dim the leading channels are used.
std::vector<ReferenceRow> reference_attention(const Rows& keys, const Rows& values,
                                              const Rows& query, uint32_t value_dim,
                                              const AttendOptions& options);

/// Largest |O − O'| over the row relative to the largest |O'|, worst over rows.
double output_error(const AttendResult& result, const std::vector<ReferenceRow>& reference);

/// |LSE − LSE'| relative to its tolerance, worst over rows.
double log_sum_exp_error(const AttendResult& result, const std::vector<ReferenceRow>& reference);

/// The model's stated LSE error: absolute, relative to |LSE|, relative to the largest product
/// scale · max|q| · max|k|, in whose units scores are truncated, and relative to the soft cap.
inline constexpr double kLseAbsolute = 4e-5;
inline constexpr double kLseRelative = 0x1p-22;
inline constexpr double kLseOfProduct = 0x1p-23;
inline constexpr double kLseOfCap = 0x1p-15;

/// Euclidean norm of the difference relative to the reference's norm.
double relative_distance(const std::vector<double>& output, const std::vector<double>& reference);

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_ATTENTION_HPP_

#include "codes/code_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "codes/code_form.hpp"
#include "page/elements.hpp"

namespace nearkv {
namespace {

constexpr int kRatioBits = 8;
constexpr int kScaleBits = 15;

/// Codes of one tensor of one row.
struct StoredRow {
  const CodeForm* form;
  std::size_t dim;
  std::size_t token;
  unsigned sign_set;
  const std::uint8_t* factors;
  int top;
  const std::int8_t* mean;
  int mean_power;
  const std::int8_t* gains;  ///< None of V.
  std::array<const std::uint8_t*, 4> planes;
};

using Residual = std::array<std::int32_t, NKV_MAX_HEAD_DIM>;

void hadamard_block(std::span<std::int32_t> block) {
  for (std::size_t half = 1; half < block.size(); half *= 2) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      if ((i & half) != 0) continue;
      const std::int32_t a = block[i];
      const std::int32_t b = block[i + half];
      block[i] = a + b;
      block[i + half] = a - b;
    }
  }
}

/// 2^15 times the transposed transform of what the first planes say.
void transpose_code(const StoredRow& row, std::size_t planes, Residual* residual) {
  residual->fill(0);
  for (std::size_t plane = 0; plane < planes; ++plane) {
    const std::uint8_t* const bits = row.planes[plane] + row.token * row.dim / 8;
    const std::int32_t weight = 1 << (static_cast<std::size_t>(row.form->planes) - 1 - plane);
    for (std::size_t c = 0; c < row.dim; ++c) {
      (*residual)[c] += (bits[c / 8] >> (c % 8) & 1) != 0 ? weight : -weight;
    }
  }
  for (std::size_t at = 0; at < row.dim;) {
    const CodeBlock block = code_block(row.dim, at);
    const auto values = std::span(*residual).subspan(at, block.size);
    for (std::int32_t& value : values) value *= block.scale == 0 ? 1 << kScaleBits : block.scale;
    hadamard_block(values);
    at += block.size;
  }
  const auto minus = minus_signs(row.sign_set);
  for (std::size_t c = 0; c < row.dim; ++c) {
    if (minus[c] != 0) (*residual)[c] = -(*residual)[c];
  }
}

double times_octaves(double value, int sixteenths) {
  const Octaves factor = octaves(sixteenths);
  return std::ldexp(value * factor.mantissa, factor.power);
}

std::uint16_t code_bf16(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::abs(value) < std::numeric_limits<float>::min()) return 0;
  return to_bf16(static_cast<float>(std::clamp(value, -kLargest, kLargest)));
}

void read_row(const StoredRow& row, std::size_t planes, std::span<std::byte> out) {
  const int factor = row.factors[row.token / 2] >> (row.token % 2 * 4) & 15;
  const int sixteenths = row.top - (kTopFactor - factor) * row.form->factor_step;
  Residual residual;
  if (factor != 0) transpose_code(row, planes, &residual);
  for (std::size_t c = 0; c < row.dim; ++c) {
    double value = std::ldexp(row.mean[c], row.mean_power);
    if (factor != 0) {
      const double scaled = static_cast<double>(residual[c]) * row.form->ratio[planes - 1];
      value += std::ldexp(times_octaves(scaled, sixteenths), -kRatioBits - kScaleBits);
    }
    if (row.gains != nullptr) value = times_octaves(value, -row.gains[c]);
    const std::uint16_t bits = code_bf16(value);
    std::memcpy(out.data() + c * sizeof(bits), &bits, sizeof(bits));
  }
}

}  // namespace

Status CodeReader::open(const PageList& list, std::size_t page, const CodeSelection& selection) {
  selection_ = selection;
  const Status status = list.open_any(page, HeaderDepth::kRows, &view_);
  if (status != Status::kOk) return status;
  const bool has_values = header().value_dim != 0;
  const bool fits = view_.has_codes() && (selection.tensor == NKV_TENSOR_KEYS || has_values);
  return fits ? Status::kOk : Status::kBadPage;
}

Status CodeReader::verify() const {
  Status status = view_.verify(NKV_PAGE_ARRAY_CODE_SUMMARY);
  if (status == Status::kOk && selection_.tensor != NKV_TENSOR_VALUES) {
    status = view_.verify(NKV_PAGE_ARRAY_K_SIGNS);
    if (status == Status::kOk && selection_.planes > 1)
      status = view_.verify(NKV_PAGE_ARRAY_K_CODES);
    if (status == Status::kOk) status = view_.verify(NKV_PAGE_ARRAY_K_GAINS);
  }
  if (status == Status::kOk && selection_.tensor != NKV_TENSOR_KEYS) {
    status = view_.verify(NKV_PAGE_ARRAY_V_CODES);
  }
  if (status == Status::kOk && header().sign_set >= NKV_SIGN_SETS) status = Status::kBadPage;
  return status;
}

void CodeReader::read_key(std::size_t token, std::span<std::byte> out) const {
  const std::size_t plane_bytes = std::size_t{NKV_PAGE_TOKENS / 8} * header().head_dim;
  const auto* const rest = view_.data<std::uint8_t>(NKV_PAGE_ARRAY_K_CODES);
  const StoredRow row{&kKeyCodes,
                      header().head_dim,
                      token,
                      header().sign_set,
                      view_.data<std::uint8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY),
                      header().k_top,
                      view_.data<std::int8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS,
                      header().k_mean_power,
                      view_.data<std::int8_t>(NKV_PAGE_ARRAY_K_GAINS),
                      {view_.data<std::uint8_t>(NKV_PAGE_ARRAY_K_SIGNS), rest, rest + plane_bytes,
                       rest + 2 * plane_bytes}};
  read_row(row, selection_.planes, out);
}

void CodeReader::read_value(std::size_t token, std::span<std::byte> out) const {
  const std::size_t plane_bytes = std::size_t{NKV_PAGE_TOKENS / 8} * header().value_dim;
  const auto* const planes = view_.data<std::uint8_t>(NKV_PAGE_ARRAY_V_CODES);
  const StoredRow row{
      &kValueCodes,
      header().value_dim,
      token,
      header().sign_set,
      view_.data<std::uint8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS / 2,
      header().v_top,
      view_.data<std::int8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS + header().head_dim,
      header().v_mean_power,
      nullptr,
      {planes, planes + plane_bytes, planes + 2 * plane_bytes, nullptr}};
  read_row(row, std::min<std::size_t>(selection_.planes, NKV_VALUE_CODE_PLANES), out);
}

}  // namespace nearkv

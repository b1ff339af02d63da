#include "codes/code_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "codes/code_form.hpp"
#include "codes/coded_page.hpp"
#include "codes/transform.hpp"
#include "page/elements.hpp"

namespace nearkv {
namespace {

constexpr int kRatioBits = 8;

/// One tensor of a page.
struct StoredRows {
  const CodeForm* form;
  CodedTensor codes;
  std::size_t dim;
  unsigned sign_set;
  const std::int8_t* gains;  ///< None of V.
};

using Residual = std::array<std::int32_t, NKV_MAX_HEAD_DIM>;

/// 2^15 times the transposed transform of what a row's first planes say.
void transpose_code(const StoredRows& rows, std::size_t token, std::size_t planes,
                    Residual* residual) {
  residual->fill(0);
  for (std::size_t plane = 0; plane < planes; ++plane) {
    const std::uint8_t* const bits = rows.codes.planes[plane] + token * rows.dim / 8;
    const std::int32_t weight = 1 << (static_cast<std::size_t>(rows.form->planes) - 1 - plane);
    for (std::size_t c = 0; c < rows.dim; ++c) {
      (*residual)[c] += (bits[c / 8] >> (c % 8) & 1) != 0 ? weight : -weight;
    }
  }
  transpose(residual->data(), rows.dim, rows.sign_set);
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

void read_row(const StoredRows& rows, std::size_t token, std::size_t planes,
              std::span<std::byte> out) {
  const auto factor = static_cast<int>(rows.codes.factor(token));
  const int sixteenths = rows.codes.top - (kTopFactor - factor) * rows.form->factor_step;
  Residual residual;
  if (factor != 0) transpose_code(rows, token, planes, &residual);
  for (std::size_t c = 0; c < rows.dim; ++c) {
    double value = std::ldexp(rows.codes.mean[c], rows.codes.mean_power);
    if (factor != 0) {
      const double scaled = static_cast<double>(residual[c]) * rows.form->ratio[planes - 1];
      value += std::ldexp(times_octaves(scaled, sixteenths), -kRatioBits - kTransposeBits);
    }
    if (rows.gains != nullptr) value = times_octaves(value, -rows.gains[c]);
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
  const StoredRows rows{&kKeyCodes, coded_keys(view_), header().head_dim, header().sign_set,
                        view_.data<std::int8_t>(NKV_PAGE_ARRAY_K_GAINS)};
  read_row(rows, token, selection_.planes, out);
}

void CodeReader::read_value(std::size_t token, std::span<std::byte> out) const {
  const StoredRows rows{&kValueCodes, coded_values(view_), header().value_dim, header().sign_set,
                        nullptr};
  read_row(rows, token, std::min<std::size_t>(selection_.planes, NKV_VALUE_CODE_PLANES), out);
}

}  // namespace nearkv

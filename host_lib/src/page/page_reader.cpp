#include "page/page_reader.hpp"

#include <array>
#include <cstring>

namespace nearkv {
namespace {

constexpr std::array kKeyArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_K_EXCEPTIONS};
constexpr std::array kValueArrays = {NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS,
                                     NKV_PAGE_ARRAY_V_EXCEPTIONS};

void store(std::uint16_t bits, std::size_t channel, std::span<std::byte> out) {
  std::memcpy(out.data() + 2 * channel, &bits, sizeof(bits));
}

void restore_row(const RowSource& source, std::size_t token, const nkv_row_exception* exceptions,
                 std::size_t count, std::span<std::byte> out) {
  if (!source.is_delta4()) {
    std::memcpy(out.data(), source.row(token), out.size());
    return;
  }
  const std::uint8_t* const row = source.row(token);
  for (std::size_t channel = 0; channel < source.dim; ++channel) {
    const unsigned sign_and_mantissa = row[channel];
    const unsigned nibble = (row[source.dim + channel / 2] >> (channel % 2 * 4)) & 0xFU;
    const unsigned exponent = nibble == 0 ? 0 : source.exponents[channel] + nibble;
    store(static_cast<std::uint16_t>((sign_and_mantissa >> 7 << 15) | (exponent << 7) |
                                     (sign_and_mantissa & 0x7FU)),
          channel, out);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t element = exceptions[i].element;
    if (element / source.dim == token) store(exceptions[i].bits, element % source.dim, out);
  }
}

}  // namespace

Status PageReader::open(const PageList& list, std::size_t page, std::uint8_t tensor) {
  tensor_ = tensor;
  const Status status = list.open_any(page, HeaderDepth::kRows, &view_);
  if (status != Status::kOk) return status;
  const bool has_values = header().value_dim != 0;
  return tensor == NKV_TENSOR_KEYS || has_values ? Status::kOk : Status::kBadPage;
}

Status PageReader::verify() const {
  Status status = Status::kOk;
  if (tensor_ != NKV_TENSOR_VALUES || header().v_form == NKV_ROW_FORM_NONE) {
    status = view_.verify(kKeyArrays);
  }
  if (status == Status::kOk && tensor_ != NKV_TENSOR_KEYS) status = view_.verify(kValueArrays);
  return status;
}

std::size_t PageReader::key_bytes() const {
  return std::size_t{nkv_element_bytes(view_.header().dtype)} * view_.header().head_dim;
}

std::size_t PageReader::value_bytes() const {
  return std::size_t{nkv_element_bytes(view_.header().dtype)} * view_.header().value_dim;
}

void PageReader::read_key(std::size_t token, std::span<std::byte> out) const {
  restore_row(view_.keys(), token, view_.data<nkv_row_exception>(NKV_PAGE_ARRAY_K_EXCEPTIONS),
              view_.header().k_exceptions, out);
}

void PageReader::read_value(std::size_t token, std::span<std::byte> out) const {
  if (view_.header().v_form == NKV_ROW_FORM_NONE) {
    std::array<std::byte, NKV_MAX_HEAD_DIM * sizeof(std::uint16_t)> key;
    read_key(token, std::span(key).first(key_bytes()));
    std::memcpy(out.data(), key.data(), out.size());
    return;
  }
  restore_row(view_.values(), token, view_.data<nkv_row_exception>(NKV_PAGE_ARRAY_V_EXCEPTIONS),
              view_.header().v_exceptions, out);
}

}  // namespace nearkv

#include "rows.hpp"

#include <cstring>

#include "delta4.hpp"
#include "element.hpp"
#include "number.hpp"

namespace nearkv::model {

namespace {

// Where a page keeps one tensor's rows.
struct Tensor {
  nkv_page_array rows;
  nkv_page_array exponents;
  nkv_page_array exceptions;
  uint8_t form;
  uint8_t exception_count;
  uint32_t dim;
};

Tensor keys_of(const Page& page) {
  const nkv_page_header& header = page.header();
  return {.rows = NKV_PAGE_ARRAY_K_ROWS,
          .exponents = NKV_PAGE_ARRAY_K_EXPONENTS,
          .exceptions = NKV_PAGE_ARRAY_K_EXCEPTIONS,
          .form = header.k_form,
          .exception_count = header.k_exceptions,
          .dim = header.head_dim};
}

Tensor values_of(const Page& page) {
  const nkv_page_header& header = page.header();
  return {.rows = NKV_PAGE_ARRAY_V_ROWS,
          .exponents = NKV_PAGE_ARRAY_V_EXPONENTS,
          .exceptions = NKV_PAGE_ARRAY_V_EXCEPTIONS,
          .form = header.v_form,
          .exception_count = header.v_exceptions,
          .dim = header.value_dim};
}

bool values_are_keys(const Page& page) { return page.header().v_form == NKV_ROW_FORM_NONE; }

std::span<const std::byte> stored_row(const Page& page, const Tensor& tensor, uint32_t token) {
  const uint32_t row_bytes = nkv_row_bytes(tensor.form, page.header().dtype, tensor.dim);
  return page.array(tensor.rows).subspan(size_t{token} * row_bytes, row_bytes);
}

std::vector<uint16_t> delta4_patterns(const Page& page, const Tensor& tensor, uint32_t token) {
  const auto row = stored_row(page, tensor, token);
  const auto exponents = page.array(tensor.exponents);
  std::vector<uint16_t> patterns(tensor.dim);
  for (uint32_t channel = 0; channel < tensor.dim; ++channel) {
    patterns[channel] =
        decode_delta4(row, tensor.dim, channel, std::to_integer<uint8_t>(exponents[channel]));
  }
  return patterns;
}

void restore_exceptions(const Page& page, const Tensor& tensor, uint32_t token,
                        std::span<uint16_t> patterns) {
  const auto stored = page.array(tensor.exceptions);
  for (size_t i = 0; i < tensor.exception_count; ++i) {
    nkv_row_exception exception;
    std::memcpy(&exception, stored.subspan(i * sizeof(exception)).data(), sizeof(exception));
    if (exception.element / tensor.dim == token) {
      patterns[exception.element % tensor.dim] = exception.bits;
    }
  }
}

std::vector<Number> row_numbers(const Page& page, const Tensor& tensor, uint32_t token) {
  if (tensor.form == NKV_ROW_FORM_DELTA4) {
    const auto patterns = delta4_patterns(page, tensor, token);
    return decode_elements(NKV_DTYPE_BF16, std::as_bytes(std::span(patterns)), tensor.dim);
  }
  return decode_elements(page.header().dtype, stored_row(page, tensor, token), tensor.dim);
}

std::vector<std::byte> source_row(const Page& page, const Tensor& tensor, uint32_t token) {
  if (tensor.form == NKV_ROW_FORM_DELTA4) {
    auto patterns = delta4_patterns(page, tensor, token);
    restore_exceptions(page, tensor, token, patterns);
    const auto bytes = std::as_bytes(std::span(patterns));
    return {bytes.begin(), bytes.end()};
  }
  const auto row = stored_row(page, tensor, token);
  return {row.begin(), row.end()};
}

}  // namespace

std::vector<int32_t> key_row(const Page& page, uint32_t token, int list_exponent) {
  std::vector<int32_t> integers;
  for (const Number& element : row_numbers(page, keys_of(page), token)) {
    integers.push_back(key_integer(element, list_exponent));
  }
  return integers;
}

std::vector<int32_t> value_row(const Page& page, uint32_t token, int list_exponent) {
  auto numbers = row_numbers(page, values_are_keys(page) ? keys_of(page) : values_of(page), token);
  numbers.resize(page.header().value_dim);
  std::vector<int32_t> integers;
  integers.reserve(numbers.size());
  for (const Number& element : numbers) {
    integers.push_back(value_integer(element, list_exponent));
  }
  return integers;
}

float key_scale(const Page& page, uint32_t token) {
  const auto scales = page.array(NKV_PAGE_ARRAY_KEY_SCALES);
  float scale = 1.0f;
  if (!scales.empty()) {
    std::memcpy(&scale, scales.subspan(token * sizeof(scale)).data(), sizeof(scale));
  }
  return scale;
}

std::vector<std::byte> source_key_row(const Page& page, uint32_t token) {
  return source_row(page, keys_of(page), token);
}

std::vector<std::byte> source_value_row(const Page& page, uint32_t token) {
  if (!values_are_keys(page)) return source_row(page, values_of(page), token);
  auto row = source_row(page, keys_of(page), token);
  row.resize(size_t{page.header().value_dim} * nkv_element_bytes(page.header().dtype));
  return row;
}

}  // namespace nearkv::model

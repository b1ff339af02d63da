#include "arrays.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

using Code = nb::dlpack::dtype_code;

template <typename T>
Rows zero_rows_as(std::initializer_list<std::size_t> shape, std::span<std::byte>* bytes) {
  Numpy<T> rows(shape);
  *bytes = rows.bytes();
  return rows.template release<Rows>();
}

}  // namespace

std::size_t element_bytes(std::uint8_t dtype) {
  return nkv_row_bytes(NKV_ROW_FORM_RAW, dtype, 16) / 16;
}

void check_shape(const Array& array, std::initializer_list<std::int64_t> shape, const char* name) {
  if (array.device_type() != nb::device::cpu::value) {
    throw nb::value_error((std::string(name) + " must be in host memory").c_str());
  }
  bool fits = array.ndim() == shape.size();
  std::string wanted;
  std::string given;
  std::size_t axis = 0;
  for (const std::int64_t extent : shape) {
    fits = fits && (extent < 0 || array.shape(axis) == static_cast<std::size_t>(extent));
    wanted += (axis == 0 ? "" : ", ") + (extent < 0 ? std::string("*") : std::to_string(extent));
    ++axis;
  }
  if (fits) return;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    given += (i == 0 ? "" : ", ") + std::to_string(array.shape(i));
  }
  throw nb::value_error(
      (std::string(name) + " must have shape [" + wanted + "], not [" + given + "]").c_str());
}

std::uint8_t dtype_of(const Array& array, std::uint8_t expected, const char* name) {
  const nb::dlpack::dtype dtype = array.dtype();
  const std::size_t bytes = dtype.bits / 8U;
  switch (static_cast<Code>(dtype.code)) {
    case Code::Bfloat:
      return NKV_DTYPE_BF16;
    case Code::Float:
      if (bytes == 2) return NKV_DTYPE_FP16;
      if (bytes == 4) return NKV_DTYPE_FP32;
      break;
    case Code::Float8_E4M3FN:
      return NKV_DTYPE_FP8_E4M3;
    case Code::Float8_E5M2:
      return NKV_DTYPE_FP8_E5M2;
    case Code::Int:
      if (bytes == 1) return NKV_DTYPE_INT8;
      break;
    case Code::UInt:
      if (bytes == element_bytes(expected)) return expected;
      break;
    default:
      break;
  }
  throw nb::type_error((std::string(name) +
                        ": no such element type in a pool; there are bfloat16, float16, fp8, int8, "
                        "and float32 for queries (uint16 and uint8 stand for the pool's own)")
                           .c_str());
}

HostRows host_rows(const Array& array, std::uint8_t dtype, const char* name) {
  if (dtype_of(array, dtype, name) != dtype) {
    throw nb::type_error((std::string(name) + " must have the pool's dtype").c_str());
  }
  const std::int64_t head_stride = array.stride(0);
  const std::int64_t token_stride = array.stride(1);
  if ((array.stride(2) != 1 && array.shape(2) != 1) || head_stride < 0 || token_stride < 0) {
    throw nb::value_error(
        (std::string(name) + ": the last axis must be contiguous and no stride negative; copy it")
            .c_str());
  }
  const std::size_t bytes = element_bytes(dtype);
  return {static_cast<const std::byte*>(array.data()),
          static_cast<std::size_t>(token_stride) * bytes,
          static_cast<std::size_t>(head_stride) * bytes};
}

std::span<const std::byte> bytes_of(const Array& array, const char* name) {
  check_contiguous(array, name);
  return {static_cast<const std::byte*>(array.data()), array.nbytes()};
}

Rows zero_rows(std::initializer_list<std::size_t> shape, std::uint8_t dtype,
               std::span<std::byte>* bytes) {
  return element_bytes(dtype) == 2 ? zero_rows_as<std::uint16_t>(shape, bytes)
                                   : zero_rows_as<std::uint8_t>(shape, bytes);
}

}  // namespace nearkv::python

// Arrays of any library that speaks DLPack or the buffer protocol, and numpy arrays back.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nearkv/pool.hpp"

namespace nearkv::python {

/// An argument: any library, any element type, any strides.
using Array = nanobind::ndarray<nanobind::ro>;

/// Size of an element of rows or queries, in bytes.
[[nodiscard]] std::size_t element_bytes(std::uint8_t dtype);

/// Raises ValueError unless the array is in host memory and has this shape, with -1 for any. `name`
/// is the argument's.
void check_shape(const Array& array, std::initializer_list<std::int64_t> shape, const char* name);

/// The contract's element type of an array. Libraries without bfloat16 hand it over as uint16, and
/// fp8 as uint8: integers as wide as `expected` count as that. TypeError for all else.
[[nodiscard]] std::uint8_t dtype_of(const Array& array, std::uint8_t expected, const char* name);

/// Rows of an array [kv_heads, tokens, dim] of dtype `dtype`, wherever its strides put them. The
/// last axis must be contiguous, and no stride negative.
[[nodiscard]] HostRows host_rows(const Array& array, std::uint8_t dtype, const char* name);

/// Raises ValueError unless the array is C-contiguous.
template <typename AnyArray>
void check_contiguous(const AnyArray& array, const char* name) {
  std::int64_t stride = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) > 1 && array.stride(axis) != stride) {
      throw nanobind::value_error((std::string(name) + " must be contiguous; copy it").c_str());
    }
    stride *= static_cast<std::int64_t>(array.shape(axis));
  }
}

/// The bytes of a C-contiguous array.
[[nodiscard]] std::span<const std::byte> bytes_of(const Array& array, const char* name);

/// A numpy array that owns its memory, zeroed.
template <typename T>
class Numpy {
 public:
  explicit Numpy(std::initializer_list<std::size_t> shape) : shape_(shape) {
    for (const std::size_t extent : shape_) size_ *= extent;
    data_ = std::make_unique<T[]>(size_);
  }

  [[nodiscard]] std::span<T> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<std::byte> bytes() { return std::as_writable_bytes(span()); }

  /// Hands the memory to Python; the object is empty afterwards.
  template <typename Result = nanobind::ndarray<nanobind::numpy, T>>
  [[nodiscard]] Result release() {
    T* const data = data_.release();
    const nanobind::capsule owner(data,
                                  [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
    return Result(data, shape_.size(), shape_.data(), owner, nullptr, nanobind::dtype<T>());
  }

 private:
  std::vector<std::size_t> shape_;
  std::size_t size_ = 1;
  std::unique_ptr<T[]> data_;
};

/// Rows as they lie in a pool.
using Rows = nanobind::ndarray<nanobind::numpy>;

/// Zeroed rows, uint16 for elements of two bytes and uint8 for one; `bytes` is their memory.
[[nodiscard]] Rows zero_rows(std::initializer_list<std::size_t> shape, std::uint8_t dtype,
                             std::span<std::byte>* bytes);

}  // namespace nearkv::python

#include "keys.hpp"

#include <cstring>

#include "arrays.hpp"
#include "lent_memory.hpp"

namespace nb = nanobind;

namespace nearkv::python {

Keys::Keys(nb::handle keys) {
  if (nb::ndarray_check(keys)) {
    take_rows(keys);
  } else {
    take_each(keys);
  }
}

void Keys::take_rows(nb::handle rows) {
  nb::ndarray<nb::ro, std::uint8_t, nb::ndim<2>, nb::device::cpu> array;
  if (!nb::try_cast(rows, array, false)) {
    throw nb::type_error("keys in an array are rows of uint8 in host memory");
  }
  const std::size_t key_bytes = array.shape(1);
  if (key_bytes > 1 && array.stride(1) != 1) {
    throw nb::value_error("each row of keys must be contiguous");
  }
  bytes_.resize(array.shape(0) * key_bytes);
  keys_.reserve(array.shape(0));
  for (std::size_t i = 0; i < array.shape(0); ++i) {
    std::byte* const copy = bytes_.data() + i * key_bytes;
    std::memcpy(copy, array.data() + static_cast<std::int64_t>(i) * array.stride(0), key_bytes);
    keys_.emplace_back(copy, key_bytes);
  }
}

void Keys::take_each(nb::handle keys) {
  std::vector<std::size_t> ends;
  for (const nb::handle key : nb::iter(keys)) {
    if (!nb::isinstance<nb::bytes>(key)) {
      throw nb::type_error(("keys are bytes, not " + class_name(key)).c_str());
    }
    const auto bytes = nb::borrow<nb::bytes>(key);
    const auto* const data = static_cast<const std::byte*>(bytes.data());
    bytes_.insert(bytes_.end(), data, data + bytes.size());
    ends.push_back(bytes_.size());
  }
  keys_.reserve(ends.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    keys_.emplace_back(bytes_.data() + begin, end - begin);
    begin = end;
  }
}

}  // namespace nearkv::python

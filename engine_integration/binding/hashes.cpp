#include "hashes.hpp"

#include <nanobind/ndarray.h>

#include "lent_memory.hpp"

namespace nb = nanobind;

namespace nearkv::python {

Hashes::Hashes(nb::handle hashes) {
  if (nb::ndarray_check(hashes)) {
    nb::ndarray<nb::ro, std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
    if (!nb::try_cast(hashes, array, false)) {
      throw nb::type_error("block hashes in an array are uint64, contiguous, in host memory");
    }
    lender_ = nb::borrow(hashes);
    span_ = {array.data(), array.size()};
    return;
  }
  for (const nb::handle hash : nb::iter(hashes)) {
    if (!nb::isinstance<nb::int_>(hash)) {
      throw nb::type_error(("block hashes are ints, not " + class_name(hash)).c_str());
    }
    std::uint64_t bits = 0;
    if (!nb::try_cast(hash, bits, false)) {
      throw nb::value_error("a block's hash is an int from 0 to 2**64 - 1: mask a signed one");
    }
    copies_.push_back(bits);
  }
  span_ = copies_;
}

}  // namespace nearkv::python

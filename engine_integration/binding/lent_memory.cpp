#include "lent_memory.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

template <typename AnyArray>
std::span<std::byte> bytes_in(const AnyArray& array) {
  check_contiguous(array, "the memory of an object");
  void* const data = const_cast<void*>(static_cast<const void*>(array.data()));
  return {static_cast<std::byte*>(data), array.nbytes()};
}

}  // namespace

std::string class_name(nb::handle object) {
  return nb::str(nb::handle(object.type()).attr("__name__")).c_str();
}

LentMemory::LentMemory(nb::handle object, Access access) {
  std::string why;
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    try {
      if (take_buffer(object, access)) return;
    } catch (nb::python_error& error) {
      // Not final: numpy refuses element types that DLPack has.
      why = nb::str(error.value()).c_str();
    }
  }
  if (nb::hasattr(object, "__dlpack__") && take_array(object, access)) return;
  const std::string type = class_name(object);
  if (!why.empty()) {
    const std::string wanted = access == Access::kWrite ? "writable, contiguous" : "contiguous";
    throw nb::value_error((type + " lends no " + wanted + " memory: " + why).c_str());
  }
  throw nb::type_error((type +
                        " lends no memory; give what has the buffer protocol or, in this host, "
                        "DLPack (bytes, numpy arrays, CPU tensors), or a list of such pieces")
                           .c_str());
}

bool LentMemory::take_buffer(nb::handle object, Access access) {
  auto view = std::make_unique<Py_buffer>();
  const int flags = access == Access::kWrite ? PyBUF_CONTIG : PyBUF_CONTIG_RO;
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0) throw nb::python_error();
  view_.reset(view.release());
  bytes_ = {static_cast<std::byte*>(view_->buf), static_cast<std::size_t>(view_->len)};
  return true;
}

bool LentMemory::take_array(nb::handle object, Access access) {
  if (access == Access::kWrite) {
    if (!nb::try_cast(object, writable_, false)) return false;
    bytes_ = bytes_in(writable_);
  } else {
    if (!nb::try_cast(object, readable_, false)) return false;
    bytes_ = bytes_in(readable_);
  }
  return true;
}

}  // namespace nearkv::python

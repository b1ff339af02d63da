// Memory that Python objects lend to a job.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "arrays.hpp"

namespace nearkv::python {

/// The name of an object's class, for people.
[[nodiscard]] std::string class_name(nanobind::handle object);

enum class Access : std::uint8_t { kRead, kWrite };

/// The bytes of one object, through the buffer protocol or else DLPack, without a copy. The object
/// cannot give its memory up (resize, close, free) until this is gone.
///
/// Making and destroying one needs the GIL; moving one does not.
class LentMemory {
 public:
  /// TypeError for what has no memory in this host, ValueError where it is not contiguous, or not
  /// writable and has to be.
  LentMemory(nanobind::handle object, Access access);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  struct Release {
    void operator()(Py_buffer* view) const {
      PyBuffer_Release(view);
      delete view;
    }
  };

  [[nodiscard]] bool take_buffer(nanobind::handle object, Access access);
  [[nodiscard]] bool take_array(nanobind::handle object, Access access);

  std::unique_ptr<Py_buffer, Release> view_;
  nanobind::ndarray<nanobind::ro, nanobind::device::cpu> readable_;
  nanobind::ndarray<nanobind::device::cpu> writable_;
  std::span<std::byte> bytes_;
};

}  // namespace nearkv::python

#include "nearkv/device.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <string>

#include "error.hpp"
#include "lent_memory.hpp"
#include "module.hpp"
#include "nearkv/in_place.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

std::shared_ptr<Device> open_by_uri(const std::string& uri) {
  std::unique_ptr<Device> device;
  std::string reason;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = open_device(uri, &device, &reason);
  }
  check(status, reason);
  return device;
}

/// In memory that a Python object lends, and cannot give up while the device lives.
std::shared_ptr<Device> open_in_memory(const std::string& uri, nb::handle lender) {
  auto lent = std::make_unique<LentMemory>(lender, Access::kWrite);
  const std::span<std::byte> memory = lent->bytes();
  const std::shared_ptr<void> owner(lent.release(), [](void* released) {
    const nb::gil_scoped_acquire acquire;
    delete static_cast<LentMemory*>(released);
  });
  std::unique_ptr<Device> device;
  std::string reason;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = open_device_in(memory, owner, uri, &device, &reason);
  }
  check(status, reason);
  return device;
}

std::shared_ptr<Device> open_as_asked(const std::string& uri, nb::handle memory) {
  return memory.is_none() ? open_by_uri(uri) : open_in_memory(uri, memory);
}

}  // namespace

void bind_device(nb::module_& module) {
  nb::class_<Device>(
      module, "Device",
      "A near-data device, by URI: 'cpu:', 'cpu:/dev/dax0.0', 'model:?memory=1GiB'\n"
      "(host_lib/include/nearkv/device.hpp has the syntax). It lives as long as\n"
      "its pools do.\n\n"
      "With memory=, 'cpu:' works in what an object lends by the buffer protocol or\n"
      "DLPack, such as a tensor: between multiples of 4,096 bytes, where nobody else\n"
      "may write while the device lives.")
      .def(nb::new_(&open_as_asked), "uri"_a, nb::kw_only(), "memory"_a = nb::none())
      .def_prop_ro("cores", &Device::cores,
                   "Cores of this machine that its own threads are pinned to; none of a device\n"
                   "elsewhere.");
}

}  // namespace nearkv::python

#include "error.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {

void bind_error(nb::module_& module) {
  nb::dict members;
  members["status"] = nb::int_(int{NKV_STATUS_OK});
  members["statuses"] = nb::make_tuple();
  PyObject* const type = PyErr_NewExceptionWithDoc(
      "_nearkv.Error",
      "A device or pool refused or failed: `errno`, `strerror` (which says what to do), and\n"
      "`status`, a value of `nearkv.Status`. `statuses`: of a call for a list of sequences, the\n"
      "status of each.",
      PyExc_OSError, members.ptr());
  if (type == nullptr) throw nb::python_error();
  module.attr("Error") = nb::steal(type);
  module.def(
      "check",
      [](std::uint8_t status, const std::string& text) {
        check(static_cast<Status>(status), text);
      },
      "status"_a, "text"_a = "",
      "Raises Error for a `Status` other than OK, with `text` or the status's own message.");
}

void check(Status status, const std::string& text, std::span<const Status> statuses) {
  if (status == Status::kOk) return;
  const std::string shown = text.empty() ? std::string(message(status)) : text;
  const nb::object type = nb::module_::import_("_nearkv").attr("Error");
  const nb::object error = type(-to_errno(status), shown);
  error.attr("status") = static_cast<int>(status);
  nb::list each;
  for (const Status one : statuses) each.append(static_cast<int>(one));
  error.attr("statuses") = nb::tuple(each);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace nearkv::python

// Statuses as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string>

#include "nearkv/status.hpp"

namespace nearkv::python {

/// Adds the exception class `Error`, and `check` which raises it, to the module.
void bind_error(nanobind::module_& module);

/// Raises `Error` with errno, `text` and the status's name, unless `status` is kOk. An empty text
/// becomes the status's own message. `statuses`: of the sequences of a batch. Needs the GIL.
void check(Status status, const std::string& text = {}, std::span<const Status> statuses = {});

}  // namespace nearkv::python

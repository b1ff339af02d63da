// What the parts of the pool's binding share.
#pragma once

#include <nanobind/nanobind.h>

#include "error.hpp"
#include "nearkv/pool.hpp"

namespace nearkv::python {

/// Runs a call of the pool without the GIL and raises its error.
template <typename Call>
void run(Pool& pool, Call&& call) {
  Status status = Status::kOk;
  {
    const nanobind::gil_scoped_release release;
    status = call();
  }
  if (status != Status::kOk) check(status, pool.last_error());
}

/// Adds ColdPages, and what a pool answers about its tokens: attend, top_k, gather, read,
/// rows_in_place.
void bind_pool_queries(nanobind::module_& module, nanobind::class_<Pool>& pool);

}  // namespace nearkv::python

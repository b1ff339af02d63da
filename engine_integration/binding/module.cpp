// The extension module `_nearkv`: host_lib's public interface for the package `nearkv`.
#include "module.hpp"

#include <nanobind/nanobind.h>

#include "error.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): the macro's own names.
NB_MODULE(_nearkv, module) {
  module.doc() =
      "Devices, pools, object stores, codecs, the router and the scheduler of NearKV; use it "
      "through the package `nearkv`.";
  nearkv::python::bind_error(module);
  nearkv::python::bind_device(module);
  nearkv::python::bind_pool(module);
  nearkv::python::bind_block_attention(module);
  nearkv::python::bind_codecs(module);
  nearkv::python::bind_pages(module);
  nearkv::python::bind_store_records(module);
  nearkv::python::bind_store(module);
  nearkv::python::bind_router(module);
  nearkv::python::bind_klpm_queue(module);
  nearkv::python::bind_retention(module);
  nearkv::python::bind_scheduler(module);
}

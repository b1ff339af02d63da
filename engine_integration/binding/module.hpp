// The parts of the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace nearkv::python {

/// Device, Pool, NearStats, PoolUsage.
void bind_pool(nanobind::module_& module);

/// encode_block, decode_block, codec_supports.
void bind_codecs(nanobind::module_& module);

}  // namespace nearkv::python

// What a page is, by its header.
#pragma once

#include "nkv_abi.h"

namespace nearkv::test {

inline nkv_page_shape shape_of(const nkv_page_header& header) {
  return {.k_form = header.k_form,
          .v_form = header.v_form,
          .dtype = header.dtype,
          .flags = header.flags,
          .head_dim = header.head_dim,
          .value_dim = header.value_dim};
}

}  // namespace nearkv::test

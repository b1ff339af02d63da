// Compressed pages: a header, and the rows in a capacity codec (struct cold_payload).
#ifndef NEARKV_MODEL_COLD_PAGE_HPP_
#define NEARKV_MODEL_COLD_PAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_coder.hpp"
#include "nkv_abi.h"
#include "page.hpp"
#include "page_builder.hpp"

namespace nearkv::model {

/// What a page holds, as APPEND took it.
struct PageRows {
  std::vector<std::byte> keys;
  std::vector<std::byte> values;  ///< Empty with v_form NONE.
  std::vector<float> key_scales;  ///< Empty without KEY_SCALES.
  std::vector<int8_t> gains;      ///< Empty without CODES.
};

/// The rows of a page of any codec that is intact. CORRUPT if its payload is not what the header
/// says, BAD_PAGE if its sign set is none.
uint8_t rows_of(const Page& page, BlockCoder& coder, PageRows* rows);

/// Builds a page with the identity and row forms of `source`, under `generation`. BAD_PAGE if the
/// codec does not take the rows.
uint8_t build_in_codec(const nkv_page_header& source, uint16_t generation, uint8_t codec,
                       const PageRows& rows, BlockCoder& coder, BuiltPage* page);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_COLD_PAGE_HPP_

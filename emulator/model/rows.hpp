// Exact rows of a page: as integers for the datapath, as source bytes for READ and GATHER.
#ifndef NEARKV_MODEL_ROWS_HPP_
#define NEARKV_MODEL_ROWS_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "page.hpp"

namespace nearkv::model {

/// k̄ of a token's key row (1.2); what DELTA4 or a NaN hides counts as zero (1.4).
std::vector<int32_t> key_row(const Page& page, uint32_t token, int list_exponent);

/// v̄ of a token's value row (1.3), or of the leading channels of its key row if v_form is NONE;
/// what is not finite counts as zero (1.4).
std::vector<int32_t> value_row(const Page& page, uint32_t token, int list_exponent);

/// Key scale of a token; 1 without KEY_SCALES.
float key_scale(const Page& page, uint32_t token);

/// Bytes of a token's key row in the source dtype, exceptions restored.
std::vector<std::byte> source_key_row(const Page& page, uint32_t token);

/// The same of its value row; with v_form NONE, the leading channels of the key row.
std::vector<std::byte> source_value_row(const Page& page, uint32_t token);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ROWS_HPP_

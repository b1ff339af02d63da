// Rows of a page as bf16 in channel order, for the kernels that take no other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "page/row_source.hpp"

namespace nearkv {

/// Decodes the PAGE_TOKENS DELTA4 rows of a bf16 tensor whose dim is a multiple of 32: out
/// [PAGE_TOKENS][dim], 64-byte aligned. Fetches as many bytes from `next` on meanwhile, unless it
/// is null. Only where attend_span_bf16() has a kernel.
void decode_delta4_bf16(const RowSource& source, const std::byte* next, std::uint16_t* out);

}  // namespace nearkv

// Exact scores by the kernel `score` (section 1.5).
#ifndef NEARKV_OPENCL_SCORES_HPP_
#define NEARKV_OPENCL_SCORES_HPP_

#include <cstddef>

#include "opencl/packed_rows.hpp"
#include "opencl/runtime.hpp"
#include "query.hpp"

namespace nearkv::opencl {

/// q̄ of all rows, [row][channel].
cl::Buffer upload_query(Runtime& runtime, const model::Query& query);

/// S of keys for the first `rows` rows of an uploaded query, 64 bits each, [token][row].
cl::Buffer scores_of(Runtime& runtime, const PackedRows& keys, const cl::Buffer& query,
                     std::size_t rows, int key_exponent);

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_SCORES_HPP_

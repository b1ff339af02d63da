#include "opencl/scores.hpp"

#include <cstdint>
#include <vector>

namespace nearkv::opencl {

cl::Buffer upload_query(Runtime& runtime, const model::Query& query) {
  std::vector<std::int32_t> integers;
  for (std::size_t row = 0; row < query.rows(); ++row) {
    integers.insert(integers.end(), query.row(row).begin(), query.row(row).end());
  }
  return runtime.upload<std::int32_t>(integers);
}

cl::Buffer scores_of(Runtime& runtime, const PackedRows& keys, const cl::Buffer& query,
                     std::size_t rows, int key_exponent) {
  const cl::Buffer scores = runtime.allocate(keys.tokens * rows * sizeof(std::int64_t));
  runtime.run("score", cl::NDRange(keys.tokens, rows), keys.rows, keys.row_bytes, keys.channels,
              keys.is_delta4, keys.dtype, keys.exponents, query, cl_int{key_exponent}, scores);
  return scores;
}

}  // namespace nearkv::opencl

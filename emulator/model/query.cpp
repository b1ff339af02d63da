#include "query.hpp"

#include <algorithm>

#include "element.hpp"
#include "number.hpp"

namespace nearkv::model {

Verdict Query::decode(std::span<const std::byte> bytes, uint8_t dtype, uint32_t rows,
                      uint32_t head_dim, Query* query) {
  query->head_dim_ = head_dim;
  query->integers_.clear();
  query->exponents_.clear();
  const size_t row_bytes = size_t{head_dim} * nkv_element_bytes(dtype);
  for (uint32_t row = 0; row < rows; ++row) {
    const auto elements = decode_elements(dtype, bytes.subspan(row * row_bytes), head_dim);
    if (!std::all_of(elements.begin(), elements.end(),
                     [](const Number& element) { return element.finite; })) {
      return {NKV_STATUS_BAD_QUERY, row};
    }
    const int top = largest_exponent(elements);
    for (const Number& element : elements) {
      query->integers_.push_back(query_integer(element, top));
    }
    query->exponents_.push_back(top);
  }
  return {};
}

int64_t exact_score(std::span<const int32_t> query, std::span<const int32_t> key) {
  int64_t sum = 0;
  for (size_t c = 0; c < query.size(); ++c) sum += int64_t{query[c]} * key[c];
  return sum;
}

}  // namespace nearkv::model

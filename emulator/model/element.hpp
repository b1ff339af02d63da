// Elements of rows: bf16, fp16, fp32, fp8 and int8 as Numbers (section 1).
#ifndef NEARKV_MODEL_ELEMENT_HPP_
#define NEARKV_MODEL_ELEMENT_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "number.hpp"

namespace nearkv::model {

/// One element of a valid `nkv_dtype` at the start of `bytes`.
Number decode_element(uint8_t dtype, std::span<const std::byte> bytes);

/// `count` elements that follow one another from the start of `bytes`.
std::vector<Number> decode_elements(uint8_t dtype, std::span<const std::byte> bytes, size_t count);

/// The largest exponent over the finite elements; 0 if all are zero.
int largest_exponent(std::span<const Number> elements);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ELEMENT_HPP_

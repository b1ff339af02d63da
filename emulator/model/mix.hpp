// The hash of sign sets (sections 5.1 and 11.1).
#ifndef NEARKV_MODEL_MIX_HPP_
#define NEARKV_MODEL_MIX_HPP_

#include <cstdint>

namespace nearkv::model {

constexpr uint32_t mix(uint32_t value) {
  value = (value ^ value >> 16) * 0x21F0AAADu;
  value = (value ^ value >> 15) * 0x735A2D97u;
  return value ^ value >> 15;
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_MIX_HPP_

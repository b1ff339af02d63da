#include "firmware/kept.h"

uint32_t kept_sum(const void* bytes, size_t size) {
  const uint8_t* const at = bytes;
  uint32_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ at[i]) * UINT32_C(0x01000193);
  return sum;
}

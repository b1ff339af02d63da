// The instruction that tells a core it is in a spin loop.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nearkv {

inline void pause_core() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace nearkv

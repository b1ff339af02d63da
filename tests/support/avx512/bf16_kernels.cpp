// The library's kernels for AVX-512 with BF16, as the processor that lacks it would run them.
#include <immintrin.h>

#define __AVX512BF16__ 1                // NOLINT(bugprone-reserved-identifier)
#define __builtin_cpu_supports(name) 1  // NOLINT(bugprone-reserved-identifier)

#include "attend/rows_bf16.cpp"    // NOLINT(bugprone-suspicious-include)
#include "attend/span_avx512.cpp"  // NOLINT(bugprone-suspicious-include)

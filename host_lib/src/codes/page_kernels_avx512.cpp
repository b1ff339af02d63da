// Whether this processor has the kernels for AVX-512, and all of them as one table.
#include "codes/page_kernels_avx512.hpp"

namespace nearkv {

#if NEARKV_HAS_AVX512_PAGES

const PageKernels* avx512_page_kernels() {
  const bool has_all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vbmi") &&
                       __builtin_cpu_supports("avx512vbmi2") &&
                       __builtin_cpu_supports("avx512vnni");
  if (!has_all) return nullptr;
  static const PageKernels kernels = [] {
    PageKernels all{};
    avx512::set_score_kernels(&all);
    avx512::set_refine_kernels(&all);
    avx512::set_weight_kernels(&all);
    avx512::set_row_kernels(&all);
    avx512::set_sum_kernels(&all);
    avx512::set_error_kernels(&all);
    avx512::set_total_kernels(&all);
    return all;
  }();
  return &kernels;
}

#else

const PageKernels* avx512_page_kernels() { return nullptr; }

#endif

}  // namespace nearkv

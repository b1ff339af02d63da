// Numbers of pages' rows, compiled for AVX-512: see the headers.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

#include "codes/page_rows.hpp"

namespace nearkv {

void avx512::set_row_kernels(PageKernels* kernels) {
  kernels->mean_logits = mean_logits;
  kernels->spreads = spreads;
}

}  // namespace nearkv

#endif

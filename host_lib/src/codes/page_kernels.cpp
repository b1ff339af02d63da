#include "codes/page_kernels.hpp"

#include <algorithm>

#include "codes/code_form.hpp"
#include "codes/page_kernels_portable.hpp"
#include "codes/page_rows.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {

const PageKernels& portable_page_kernels() {
  static const PageKernels kernels = [] {
    PageKernels all{};
    portable::set_score_kernels(&all);
    portable::set_weight_kernels(&all);
    portable::set_error_kernels(&all);
    portable::set_refine_kernels(&all);
    portable::set_sum_kernels(&all);
    portable::set_total_kernels(&all);
    all.mean_logits = mean_logits;
    all.spreads = spreads;
    return all;
  }();
  return kernels;
}

const KernelTables& kernel_tables() {
  static const KernelTables tables = [] {
    KernelTables made{};
    std::ranges::copy(weight_mantissas(), made.mantissas);
    std::ranges::copy(kOctaves, made.wide_octaves);
    std::ranges::copy(log_sum_excess(), made.sum_excess);
    for (std::size_t i = 0; i < 32; ++i) {
      made.fractions[i] =
          static_cast<std::int16_t>(i % 16 == 0 ? kOctaves[0] << 3 : kOctaves[16 - i % 16] << 2);
      made.before_steps[i] =
          static_cast<std::uint16_t>(i < kLogSteps.size() ? kLogSteps[i] - 1 : 65535U);
      made.first_steps[i] = kFirstLogStep[i];
    }
    return made;
  }();
  return tables;
}

const PageKernels& page_kernels() {
  static const PageKernels& kernels = [&]() -> const PageKernels& {
    const PageKernels* const avx512 = avx512_page_kernels();
    return avx512 != nullptr ? *avx512 : portable_page_kernels();
  }();
  return kernels;
}

}  // namespace nearkv

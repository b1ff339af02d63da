// Attention of a group of query rows to every visible token of listed pages.
#ifndef NEARKV_HLS_ATTEND_HPP_
#define NEARKV_HLS_ATTEND_HPP_

#include "kernels/rows.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

/// How logits are made of scores, and results of sums: the fields of an ATTEND command, floats as
/// their patterns.
struct AttendScale {
  std::uint32_t scale;
  std::uint32_t soft_cap;
  int key_exponent;    ///< Ek of the list
  int value_exponent;  ///< Ev of the list
  bool base2;
};

/// One tensor of the listed pages.
struct TensorPlace {
  ArrayPlace exponents;
  ArrayPlace rows;
  RowShape shape;
};

}  // namespace nearkv::kernels

/// ATTEND, mode DENSE (ARITHMETIC.md section 4): O and LSE, natural or base 2.
///
/// Keys and values come over a port of their own each: `keys` and `values` are the same memory, as
/// are `key_pages` and `value_pages` the same list. `visible` is a mask a page, of pages with a
/// visible token. `output` takes `group` rows of binary32, whole bursts each; `log_sum_exp` a
/// burst: 8 rows in 32 bits each.
extern "C" void nearkv_attend(const nearkv::kernels::Burst* keys, const std::uint32_t* key_pages,
                              nearkv::kernels::TensorPlace key_place,
                              const nearkv::kernels::Burst* values,
                              const std::uint32_t* value_pages,
                              nearkv::kernels::TensorPlace value_place,
                              const std::uint64_t* visible, int page_count,
                              const nearkv::kernels::Burst* query, int group,
                              nearkv::kernels::AttendScale scale, nearkv::kernels::Burst* output,
                              nearkv::kernels::Burst* log_sum_exp);

#endif  // NEARKV_HLS_ATTEND_HPP_

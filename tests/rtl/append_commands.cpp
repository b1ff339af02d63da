#include "append_commands.hpp"

#include <cmath>

#include "support/elements.hpp"

namespace nearkv::rtl_test {

namespace {

nkv_page_shape page_shape(const AppendShape& shape) {
  nkv_page_shape page{};
  page.k_form = shape.k_form;
  page.v_form = shape.v_form;
  page.dtype = shape.dtype;
  if (shape.key_scales) page.flags |= NKV_PAGE_FLAG_KEY_SCALES;
  if (shape.codes) page.flags |= NKV_PAGE_FLAG_CODES;
  page.head_dim = shape.head_dim;
  page.value_dim = shape.value_dim;
  return page;
}

}  // namespace

std::vector<std::byte> random_row(const AppendShape& shape, std::size_t dim, test::Random& random) {
  std::normal_distribution<double> normal;
  std::vector<std::uint32_t> patterns(dim);
  const unsigned bits = 8 * nkv_element_bytes(shape.dtype);
  for (std::size_t channel = 0; channel < dim; ++channel) {
    const double size = std::ldexp(1.0, static_cast<int>(channel * 7 % 5) - 2);
    patterns[channel] = shape.any_patterns ? static_cast<std::uint32_t>(random()) >> (32 - bits)
                                           : test::encode(shape.dtype, size * normal(random));
    if (shape.lopsided) {
      constexpr double kNumbers[] = {-512, 43008};
      const std::uint64_t choice = random() % 32;
      patterns[channel] = choice < 2 ? test::encode(shape.dtype, kNumbers[choice]) : 0;
    }
  }
  return test::to_bytes(shape.dtype, patterns);
}

std::vector<std::byte> random_gains(const AppendShape& shape, test::Random& random) {
  std::vector<std::byte> gains(shape.head_dim);
  for (auto& gain : gains) {
    const auto any = static_cast<int>(random() % 256);
    gain = static_cast<std::byte>(shape.any_patterns ? any : any % 49 - 24);
  }
  return gains;
}

std::string AppendShape::name() const {
  return "dtype " + std::to_string(dtype) + ", forms " + std::to_string(k_form) + " " +
         std::to_string(v_form) + ", dims " + std::to_string(head_dim) + " " +
         std::to_string(value_dim) + ", gap " + std::to_string(gap_bytes) + ", skew " +
         std::to_string(skew_bytes) + (key_scales ? ", key scales" : "") +
         (codes ? ", codes" : "") + (any_patterns ? ", any patterns" : "");
}

std::uint32_t AppendShape::page_bytes() const {
  const nkv_page_shape shape = page_shape(*this);
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  return layout.total_bytes;
}

AppendShape random_append_shape(test::Random& random) {
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_BF16,     NKV_DTYPE_FP16,
                                     NKV_DTYPE_INT8, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2};
  AppendShape shape;
  shape.dtype = kTypes[test::pick(random, 0, 5)];
  shape.head_dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8));
  shape.value_dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8));
  if (shape.dtype == NKV_DTYPE_BF16) {
    if (random() % 2 == 0) shape.k_form = NKV_ROW_FORM_DELTA4;
    if (random() % 2 == 0) shape.v_form = NKV_ROW_FORM_DELTA4;
  }
  if (random() % 4 == 0) {
    shape.v_form = NKV_ROW_FORM_NONE;
    shape.value_dim = static_cast<std::uint16_t>(16 * test::pick(random, 0, shape.head_dim / 16));
  }
  shape.key_scales = random() % 4 == 0;
  shape.gap_bytes = random() % 2 == 0 ? 0 : test::pick(random, 1, 200);
  shape.skew_bytes = random() % 2 == 0 ? 0 : test::pick(random, 1, 63);
  shape.any_patterns = random() % 4 == 0;
  return shape;
}

}  // namespace nearkv::rtl_test

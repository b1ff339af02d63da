// Rows of keys, values and queries, and how they become a page list of the device.
#ifndef NEARKV_TESTS_MODEL_SEQUENCE_HPP_
#define NEARKV_TESTS_MODEL_SEQUENCE_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "device.hpp"
#include "support/elements.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

/// A standard normal number.
double normal(Random& random);

/// A number in [low, high).
double uniform(Random& random, double low, double high);

/// Rows of one tensor: patterns of a type, and their exact values.
struct Rows {
  uint8_t dtype = NKV_DTYPE_BF16;
  uint32_t count = 0;
  uint32_t dim = 0;
  std::vector<uint32_t> patterns{};  // [count][dim]

  [[nodiscard]] double at(size_t row, size_t channel) const {
    return decode(dtype, patterns[row * dim + channel]);
  }
  [[nodiscard]] std::vector<std::byte> bytes() const { return to_bytes(dtype, patterns); }
};

/// Rows of the numbers that a function of row and channel gives, rounded to the type.
Rows make_rows(uint8_t dtype, uint32_t count, uint32_t dim,
               const std::function<double(uint32_t, uint32_t)>& number);

/// Normal numbers of a deviation.
Rows normal_rows(uint8_t dtype, uint32_t count, uint32_t dim, double deviation, Random& random);

/// A page list of the device.
struct Sequence {
  uint64_t page_list = 0;
  uint32_t tokens = 0;  ///< A multiple of PAGE_TOKENS.

  [[nodiscard]] uint32_t pages() const { return tokens / NKV_PAGE_TOKENS; }
};

struct PageForm {
  uint8_t k_form = NKV_ROW_FORM_DELTA4;
  uint8_t v_form = NKV_ROW_FORM_DELTA4;
};

inline constexpr PageForm kRawForm{.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_RAW};

/// Shape of the pages that hold such rows. `value_dim` as APPEND has it.
nkv_page_layout layout_of(uint8_t dtype, uint32_t head_dim, uint32_t value_dim, PageForm form,
                          uint8_t flags = 0);

/// A list of `pages` entries with places of `page_bytes` each, generation 1.
uint64_t make_page_list(Device& device, uint32_t pages, uint64_t page_bytes);

/// An APPEND command for rows that the device holds already; callers change what they test.
nkv_append_command append_command(const Rows& keys, uint32_t value_dim, PageForm form);

/// Appends rows. With v_form NONE `values` only states value_dim.
Sequence append(Device& device, const Rows& keys, const Rows& values, PageForm form = {});

/// The same in pages with codes; `gains` hold one for each channel of the keys, or nothing where
/// all are zero.
Sequence append_coded(Device& device, const Rows& keys, const Rows& values,
                      PageForm form = kRawForm, std::span<const int8_t> gains = {});

/// The same, with an fp32 scale behind each key.
Sequence append_scaled(Device& device, const Rows& keys, std::span<const float> scales);

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_SEQUENCE_HPP_

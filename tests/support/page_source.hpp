// Rows of any type and form, and how they become pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/bench_device.hpp"
#include "support/kv_data.hpp"

namespace nearkv::test {

/// Whole pages of one KV head, as bytes.
struct PageSource {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_RAW;
  std::uint8_t v_form = NKV_ROW_FORM_RAW;
  std::uint16_t head_dim = 0;
  std::uint16_t value_dim = 0;
  bool key_scales = false;  ///< Each key row is followed by its fp32 scale.
  std::vector<std::byte> keys{};
  std::vector<std::byte> values{};

  [[nodiscard]] std::uint32_t key_stride() const;
  [[nodiscard]] std::uint32_t value_stride() const;
  [[nodiscard]] std::uint32_t tokens() const {
    return static_cast<std::uint32_t>(keys.size() / key_stride());
  }
  [[nodiscard]] struct nkv_page_layout layout() const;
};

/// bf16 rows in the given forms.
PageSource page_source(const KvData& data, std::uint8_t k_form, std::uint8_t v_form);

/// Any bytes in RAW form: in bf16, subnormals, infinities and NaN among them.
PageSource random_source(std::uint8_t dtype, std::uint16_t head_dim, std::uint16_t value_dim,
                         bool key_scales, std::uint32_t tokens, std::uint32_t seed);

/// Appends the rows; identity fields of the headers differ from zero.
StoredList append(BenchDevice* bench, const PageSource& source, std::uint16_t generation = 1);

/// The bytes of a list's page, of `page_bytes`.
std::span<std::byte> page_at(BenchDevice* bench, std::uint64_t page_list, std::size_t index,
                             std::uint32_t page_bytes);

}  // namespace nearkv::test

// Pages with keys and values, and a query, for tests of attention; built and read by the model.
#pragma once

#include <cstdint>
#include <vector>

#include "attend.hpp"
#include "page_list.hpp"
#include "scan_input.hpp"
#include "support/seed.hpp"

namespace nearkv::hls_test {

struct AttendShape {
  std::uint32_t head_dim = 128;
  std::uint32_t value_dim = 128;
  std::uint32_t pages = 3;
  std::uint8_t form = NKV_ROW_FORM_RAW;
  std::uint32_t group = 8;
  float scale = 0.0884f;
  float soft_cap = 0.0f;
  bool base2 = false;
  bool any_bits = false;  ///< NaN, infinities, huge and tiny elements among the others.
  model::Visibility visibility{.tokens = 0, .window = 0, .sinks = 0};  ///< tokens 0: all.
};

class AttendPages {
 public:
  AttendPages(const AttendShape& shape, test::Random& random);
  AttendPages(const AttendPages&) = delete;
  AttendPages& operator=(const AttendPages&) = delete;

  [[nodiscard]] const AttendShape& shape() const { return shape_; }
  [[nodiscard]] const model::ListedPages& pages() const { return pages_; }
  [[nodiscard]] const model::ScanInput& input() const { return input_; }

  /// The model's answer.
  [[nodiscard]] model::AttendAnswer attend() const;

 private:
  void add_page(std::uint32_t index, test::Random& random);

  AttendShape shape_;
  std::vector<std::byte> memory_;
  model::ScanInput input_;
  model::ListedPages pages_;
};

}  // namespace nearkv::hls_test

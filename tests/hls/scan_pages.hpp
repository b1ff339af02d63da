// Page lists for tests of kernels that read rows, built and read by the model.
#pragma once

#include <cstdint>
#include <vector>

#include "page_list.hpp"
#include "query.hpp"
#include "support/seed.hpp"

namespace nearkv::hls_test {

inline constexpr std::uint32_t kScanRows = 8;

/// What keys look like.
enum class Keys {
  kNormal,   ///< Channels of several sizes.
  kBiased,   ///< Pages far from the first.
  kAnyBits,  ///< Any bf16 pattern, NaN and infinities among them.
  kZero,     ///< Nothing but zeros.
};

struct ListShape {
  std::uint32_t head_dim = 128;
  std::uint32_t pages = 4;
  Keys keys = Keys::kNormal;
};

/// Pages in a memory of their own, accepted as a scan of all key rows accepts them.
class ScanList {
 public:
  ScanList(const ListShape& shape, test::Random& random);
  ScanList(const ScanList&) = delete;
  ScanList& operator=(const ScanList&) = delete;

  [[nodiscard]] const model::ListedPages& pages() const { return pages_; }
  [[nodiscard]] const model::Query& query() const { return query_; }
  [[nodiscard]] std::uint32_t head_dim() const { return shape_.head_dim; }
  [[nodiscard]] int key_exponent() const { return key_exponent_; }

  /// S of a token for a row.
  [[nodiscard]] std::int64_t score(std::size_t row, std::size_t page, std::uint32_t token) const;

 private:
  void add_page(std::uint32_t index, test::Random& random);

  ListShape shape_;
  std::vector<std::byte> memory_;
  std::vector<nkv_page_entry> entries_;
  model::ListedPages pages_;
  model::Query query_;
  int key_exponent_ = 0;
};

}  // namespace nearkv::hls_test

// Midpoints of every token of a list, and the questions that selection asks of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/planes.hpp"
#include "attend/query.hpp"
#include "attend/traffic.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

/// Section numbers refer to emulator/model/ARITHMETIC.md. Buffers are kept between runs.
class PlaneScan {
 public:
  /// Streams `planes` planes of every page with a visible token (5). The references must outlive
  /// the use of the results.
  Outcome run(const PageList& list, const Visibility& visibility, const Query& query,
              unsigned planes, Workers* workers);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t pages() const { return visible_.size(); }

  /// Tokens of a page that take part: visible, with a finite key.
  [[nodiscard]] std::uint64_t visible(std::size_t page) const { return visible_[page]; }
  /// Of those, the ones whose midpoint does not fit 16 bits in some row.
  [[nodiscard]] std::uint64_t saturated(std::size_t page) const { return saturated_[page]; }
  [[nodiscard]] std::uint64_t visible_tokens() const { return visible_tokens_; }
  /// Whether a visible token was left out for its key.
  [[nodiscard]] bool nonfinite() const { return nonfinite_; }

  /// Stored midpoints of a page's 64 tokens for a row.
  [[nodiscard]] std::span<std::int16_t> mids(std::size_t row, std::size_t page) {
    return std::span(mids_).subspan((row * pages() + page) * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS);
  }
  [[nodiscard]] std::span<const std::int16_t> mids(std::size_t row, std::size_t page) const {
    return std::span(mids_).subspan((row * pages() + page) * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS);
  }

  /// Planes that the scan streamed, and the largest midpoint of a page that they gave.
  [[nodiscard]] unsigned planes() const { return planes_; }
  [[nodiscard]] std::int16_t page_largest(std::size_t row, std::size_t page) const {
    return page_largest_[row * pages() + page];
  }

  [[nodiscard]] const RowFold& fold(std::size_t row, std::size_t page) const {
    return folds_[page * rows_ + row];
  }
  [[nodiscard]] const MidpointScale& scale(std::size_t row) const { return scales_[row]; }

  /// Radius of a page's midpoints in their own units, once `planes` planes have been read. `z16` as
  /// in RowFold::radius.
  [[nodiscard]] std::int32_t radius(std::size_t row, std::size_t page, unsigned planes,
                                    unsigned z16) const;

  /// Least midpoint in the bins that hold at least `count` visible tokens of the row (5.3).
  [[nodiscard]] std::int16_t threshold(std::size_t row, std::uint64_t count) const;

  /// Adds the row's tokens with a midpoint of at least `threshold` to `chosen`, a mask per page.
  void mark(std::size_t row, std::int16_t threshold, std::span<std::uint64_t> chosen) const;

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  void fetch_ahead(std::size_t page) const;
  Status scan_page(std::size_t page, PageFold* fold, std::vector<std::int32_t>* sums);

  const PageList* list_ = nullptr;
  const Query* query_ = nullptr;
  Visibility visibility_;
  unsigned planes_ = 0;
  std::size_t rows_ = 0;
  std::vector<std::uint64_t> visible_;
  std::vector<std::uint64_t> saturated_;
  std::vector<std::int16_t> mids_;
  std::vector<std::int16_t> page_largest_;  ///< [rows][pages].
  std::vector<RowFold> folds_;              ///< [pages][rows].
  std::vector<MidpointScale> scales_;
  std::uint64_t visible_tokens_ = 0;
  bool nonfinite_ = false;
  Traffic traffic_;
};

}  // namespace nearkv

#include "attend/plane_scan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "attend/grain.hpp"

namespace nearkv {
namespace {

constexpr int kBinShift = 4;
/// The digest and all planes; a scan of fewer planes reads so many fewer of them.
constexpr std::array kScanArrays = {NKV_PAGE_ARRAY_K_DIGEST, NKV_PAGE_ARRAY_K_PLANE0,
                                    NKV_PAGE_ARRAY_K_PLANE1, NKV_PAGE_ARRAY_K_PLANE2,
                                    NKV_PAGE_ARRAY_K_PLANE3};
static_assert((65536 >> kBinShift) == NKV_HISTOGRAM_BINS);

int bin_of(std::int16_t mid) { return (mid + 32768) >> kBinShift; }

/// Least midpoint of a bin that a token which takes part can have.
std::int16_t bottom_of(int bin) {
  return static_cast<std::int16_t>(std::max((bin << kBinShift) - 32768, kMaskedMidpoint + 1));
}

/// Tokens whose midpoint is at either end of the range.
std::uint64_t saturated_tokens(std::span<const std::int16_t> mids) {
  return at_least(mids.data(), kLargestMidpoint) | ~at_least(mids.data(), -kLargestMidpoint + 1);
}

}  // namespace

/// Pages lie apart, so that the processor's own prefetching stops at the end of what a scan reads.
void PlaneScan::fetch_ahead(std::size_t page) const {
  const std::byte* const next = list_->peek(page);
  if (next == nullptr) return;
  const std::size_t plane_bytes = NKV_PAGE_TOKENS / 8 * query_->dim();
  const std::size_t bytes = sizeof(nkv_page_header) + 2 * query_->dim() + planes_ * plane_bytes;
  for (std::size_t offset = 0; offset < bytes; offset += NKV_BURST_BYTES) {
    __builtin_prefetch(next + offset, 0, 2);
  }
}

Status PlaneScan::scan_page(std::size_t page, PageFold* fold, std::vector<std::int32_t>* sums) {
  PageView view;
  Status status = list_->open(page, HeaderDepth::kScan, query_->dim(), 0, &view);
  if (status == Status::kOk) status = view.check(std::span(kScanArrays).first(1 + planes_));
  if (status != Status::kOk) return status;
  visible_[page] = visibility_.mask(page) & ~view.header().nonfinite;
  fold_page(*query_, view, list_->k_exponent(), fold);
  std::copy(fold->rows.begin(), fold->rows.end(),
            folds_.begin() + static_cast<std::ptrdiff_t>(page * rows_));
  plane_sums(*fold, view, {0, planes_}, ~std::uint64_t{0}, sums->data());

  for (std::size_t row = 0; row < rows_; ++row) {
    const std::span<std::int16_t> page_mids = mids(row, page);
    const MidpointRange range =
        store_midpoints(fold->rows[row], scales_[row], planes_, visible_[page],
                        sums->data() + row * NKV_PAGE_TOKENS, page_mids.data());
    page_largest_[row * pages() + page] = range.greatest;
    if (range.least <= -kLargestMidpoint || range.greatest == kLargestMidpoint) {
      saturated_[page] |= saturated_tokens(page_mids) & visible_[page];
    }
  }
  return Status::kOk;
}

Outcome PlaneScan::run(const PageList& list, const Visibility& visibility, const Query& query,
                       unsigned planes, Workers* workers) {
  list_ = &list;
  query_ = &query;
  visibility_ = visibility;
  planes_ = planes;
  rows_ = query.rows();
  const std::size_t count = list.pages();
  visible_.assign(count, 0);
  saturated_.assign(count, 0);
  visible_tokens_ = 0;
  nonfinite_ = false;
  traffic_ = {};
  mids_.resize(rows_ * count * NKV_PAGE_TOKENS);
  page_largest_.assign(rows_ * count, kMaskedMidpoint);
  folds_.resize(rows_ * count);
  scales_.assign(rows_, {});

  std::size_t reference = 0;
  while (reference < count && visibility.mask(reference) == 0) ++reference;
  if (reference == count) return {};
  PageView view;
  PageFold fold;
  Status status = list.open(reference, HeaderDepth::kScan, query.dim(), 0, &view);
  if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_K_DIGEST);
  if (status != Status::kOk) return {status, reference};
  fold_page(query, view, list.k_exponent(), &fold);
  for (std::size_t row = 0; row < rows_; ++row) {
    scales_[row] = MidpointScale::from_reference(fold.rows[row]);
  }

  FirstFault fault;
  workers->for_each(count, kPlanePagesAtATime, [&](unsigned, std::size_t begin, std::size_t end) {
    PageFold page_fold;
    std::vector<std::int32_t> sums(rows_ * NKV_PAGE_TOKENS);
    for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
      if (visibility.mask(page) == 0) {
        for (std::size_t row = 0; row < rows_; ++row) {
          std::ranges::fill(mids(row, page), kMaskedMidpoint);
        }
        continue;
      }
      fetch_ahead(page + 2);
      const Status scanned = scan_page(page, &page_fold, &sums);
      if (scanned != Status::kOk) fault.record(page, scanned);
    }
  });
  if (fault.any()) return fault.outcome();
  const std::uint64_t page_bursts = 1 + bursts(2 * query.dim()) + planes * bursts(8 * query.dim());
  for (std::size_t page = 0; page < count; ++page) {
    const std::uint64_t mask = visibility.mask(page);
    if (mask == 0) continue;
    traffic_.stream += page_bursts;
    visible_tokens_ += static_cast<std::uint64_t>(std::popcount(visible_[page]));
    nonfinite_ |= visible_[page] != mask;
  }
  return {};
}

std::int32_t PlaneScan::radius(std::size_t row, std::size_t page, unsigned planes,
                               unsigned z16) const {
  const std::int32_t radius = fold(row, page).radius(planes, z16) >> scales_[row].shift;
  return std::min(radius + 2 + static_cast<std::int32_t>(planes - planes_), 65535);
}

std::int16_t PlaneScan::threshold(std::size_t row, std::uint64_t count) const {
  // With `count` pages whose largest midpoint reaches a bound, `count` tokens do: only tokens above
  // such a bound need to be counted one by one.
  std::int16_t bound = kMaskedMidpoint + 1;
  const std::span<const std::int16_t> largest =
      std::span(page_largest_).subspan(row * pages(), pages());
  if (count < pages()) {
    std::vector<std::int16_t> sorted(largest.begin(), largest.end());
    const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(sorted.begin(), nth, sorted.end(), std::greater<>());
    bound = std::max(bottom_of(bin_of(*nth)), bound);
  }
  std::array<std::uint32_t, NKV_HISTOGRAM_BINS> histogram{};
  for (std::size_t page = 0; page < pages(); ++page) {
    if (largest[page] < bound) continue;
    const std::span<const std::int16_t> page_mids = mids(row, page);
    for (std::uint64_t left = at_least(page_mids.data(), bound); left != 0; left &= left - 1) {
      ++histogram[static_cast<std::size_t>(
          bin_of(page_mids[static_cast<std::size_t>(std::countr_zero(left))]))];
    }
  }
  std::uint64_t above = 0;
  for (int bin = NKV_HISTOGRAM_BINS - 1; bin > 0; --bin) {
    above += histogram[static_cast<std::size_t>(bin)];
    if (above >= count) return bottom_of(bin);
  }
  return bottom_of(0);
}

void PlaneScan::mark(std::size_t row, std::int16_t threshold,
                     std::span<std::uint64_t> chosen) const {
  for (std::size_t page = 0; page < pages(); ++page) {
    if (page_largest_[row * pages() + page] < threshold) continue;
    chosen[page] |= at_least(mids(row, page).data(), threshold);
  }
}

}  // namespace nearkv

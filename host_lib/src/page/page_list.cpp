#include "page/page_list.hpp"

#include <algorithm>
#include <cstring>

namespace nearkv {

Outcome PageList::load(const Window& window, std::uint64_t address, std::uint64_t tokens) {
  const std::uint64_t pages = (tokens + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
  begin(window, 0);
  if (pages == 0) return {};
  const std::span<std::byte> bytes = window.at(address, pages * sizeof(nkv_page_entry));
  if (bytes.empty()) return {Status::kAddressFault, address};
  begin(window, pages);
  std::memcpy(entries_.data(), bytes.data(), bytes.size());
  find_exponents();
  return {};
}

void PageList::assign(const Window& window, std::span<const nkv_page_entry> entries) {
  begin(window, entries.size());
  std::ranges::copy(entries, entries_.begin());
  find_exponents();
}

void PageList::begin(const Window& window, std::size_t pages) {
  window_ = window;
  entries_.resize(pages);
  k_exponent_ = v_exponent_ = 0;
  stored_values_.reset();
}

void PageList::find_exponents() {
  for (const nkv_page_entry& entry : entries_) {
    k_exponent_ = std::max<int>(k_exponent_, entry.k_exponent);
    v_exponent_ = std::max<int>(v_exponent_, entry.v_exponent);
  }
}

Status PageList::open(std::size_t page, HeaderDepth depth, std::size_t head_dim,
                      std::size_t value_dim, PageView* view) const {
  const Status status = open_any(page, depth, view);
  if (status != Status::kOk) return status;
  const nkv_page_header& header = view->header();
  if (header.head_dim != head_dim) return Status::kBadPage;
  if (value_dim == 0) return Status::kOk;
  const bool stored = header.v_form != NKV_ROW_FORM_NONE;
  const bool fits = header.value_dim == value_dim && stored == stored_values_.value_or(stored);
  return fits ? Status::kOk : Status::kBadPage;
}

}  // namespace nearkv

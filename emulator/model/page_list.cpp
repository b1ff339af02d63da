#include "page_list.hpp"

#include <algorithm>
#include <bit>

namespace nearkv::model {

namespace {

bool fits(const Page& page, const PageDemand& demand) {
  const nkv_page_header& header = page.header();
  return header.head_dim == demand.head_dim &&
         (!demand.value_dim || header.value_dim == *demand.value_dim) &&
         !(demand.raw_keys && page.key_is_delta4());
}

bool stores_values(const Page& page) { return page.header().v_form != NKV_ROW_FORM_NONE; }

Verdict verify(const Page& page, uint64_t index, std::span<const nkv_page_array> arrays) {
  for (const nkv_page_array array : arrays) {
    if (!page.is_intact(array)) return {NKV_STATUS_CORRUPT, index};
  }
  return {};
}

}  // namespace

uint64_t count_tokens(const TokenSet& tokens) {
  uint64_t count = 0;
  for (const TokenMask mask : tokens) count += static_cast<uint64_t>(std::popcount(mask));
  return count;
}

TokenMask Visibility::of_page(uint64_t page) const {
  TokenMask mask = 0;
  for (uint32_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
    const uint64_t token = page * NKV_PAGE_TOKENS + t;
    const bool in_window = window == 0 || token + window >= tokens || token < sinks;
    if (token < tokens && in_window) mask |= token_bit(t);
  }
  return mask;
}

ListExponents list_exponents(std::span<const nkv_page_entry> entries) {
  ListExponents exponents;
  for (const nkv_page_entry& entry : entries) {
    exponents.key = std::max<int>(exponents.key, entry.k_exponent);
    exponents.value = std::max<int>(exponents.value, entry.v_exponent);
  }
  return exponents;
}

Verdict ListedPages::open(const Domain& domain, std::span<const nkv_page_entry> entries,
                          const Visibility& visibility, const PageDemand& demand,
                          ListedPages* pages) {
  pages->pages_.clear();
  for (uint32_t index = 0; index < entries.size(); ++index) {
    const TokenMask in_sight = visibility.of_page(index);
    if (in_sight == 0) continue;
    Page page;
    const Verdict accepted =
        Page::accept(domain, entries[index], index, {.whole_header = demand.whole_header}, &page);
    if (!accepted.ok()) return accepted;
    if (!fits(page, demand)) return {NKV_STATUS_BAD_PAGE, index};
    if (demand.value_dim && !pages->pages_.empty() &&
        stores_values(page) != stores_values(pages->pages_.front().page)) {
      return {NKV_STATUS_BAD_PAGE, index};
    }
    const Verdict verified = verify(page, index, demand.streamed);
    if (!verified.ok()) return verified;
    const TokenMask visible = in_sight & ~page.header().nonfinite;
    pages->pages_.push_back(
        {.index = index, .in_sight = in_sight, .visible = visible, .page = page});
  }
  return {};
}

Verdict ListedPages::rely_on(const Domain& domain, std::span<const nkv_page_entry> entries,
                             const TokenSet& tokens, std::span<const nkv_page_array> arrays) {
  for (size_t page = 0; page < pages_.size(); ++page) {
    if (tokens[page] == 0) continue;
    const Verdict verdict = rely_on(domain, entries, page, arrays);
    if (!verdict.ok()) return verdict;
  }
  return {};
}

Verdict ListedPages::rely_on(const Domain& domain, std::span<const nkv_page_entry> entries,
                             size_t page, std::span<const nkv_page_array> arrays) {
  ListedPage& listed = pages_[page];
  if (!listed.page.whole_header()) {
    Page whole;
    const Verdict accepted = Page::accept(domain, entries[listed.index], listed.index, {}, &whole);
    if (!accepted.ok()) return accepted;
    // What was scanned must be what is read now.
    if (whole.header().crc_hot != listed.page.header().crc_hot) {
      return {NKV_STATUS_STALE_PAGE, listed.index};
    }
    listed.page = whole;
  }
  return verify(listed.page, listed.index, arrays);
}

TokenSet ListedPages::visible() const {
  TokenSet tokens;
  for (const ListedPage& listed : pages_) tokens.push_back(listed.visible);
  return tokens;
}

bool ListedPages::hides_nonfinite() const {
  return std::any_of(pages_.begin(), pages_.end(),
                     [](const ListedPage& listed) { return listed.visible != listed.in_sight; });
}

}  // namespace nearkv::model

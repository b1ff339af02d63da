#include "coded_list.hpp"

#include <algorithm>
#include <utility>

#include "traffic.hpp"

namespace nearkv::model {

Verdict CodedList::open(const Domain& domain, const ScanInput& input, uint16_t head_dim,
                        std::optional<uint16_t> value_dim, std::optional<CodedList>* list) {
  list->reset();
  CodedList opened;
  const PageDemand demand{
      .head_dim = head_dim, .value_dim = value_dim, .whole_header = false, .streamed = {}};
  const Verdict verdict =
      ListedPages::open(domain, input.entries, input.visibility, demand, &opened.pages_);
  const auto coded = std::ranges::find_if(
      opened.pages_, [](const ListedPage& listed) { return listed.page.has_codes(); });
  // Without codes a list is read exactly, which tells what is wrong with its pages, too.
  if (!verdict.ok() || coded == opened.pages_.end()) return {};
  opened.first_coded_ = static_cast<size_t>(coded - opened.pages_.begin());

  for (size_t page = 0; page < opened.size(); ++page) {
    const ListedPage& listed = opened.pages_[page];
    if (listed.page.has_codes() && listed.page.header().sign_set >= NKV_SIGN_SETS) {
      return {NKV_STATUS_BAD_PAGE, listed.index};
    }
    if (!opened.is_coded(page)) continue;
    if (!listed.page.is_intact(NKV_PAGE_ARRAY_CODE_SUMMARY) ||
        !listed.page.is_intact(NKV_PAGE_ARRAY_K_SIGNS)) {
      return {NKV_STATUS_CORRUPT, listed.index};
    }
  }
  if (!coded->page.is_intact(NKV_PAGE_ARRAY_K_GAINS)) return {NKV_STATUS_CORRUPT, coded->index};
  list->emplace(std::move(opened));
  return {};
}

bool CodedList::is_coded(size_t page) const {
  const Page& own = pages_[page].page;
  return own.has_codes() &&
         own.header().crc_k_gains == pages_[first_coded_].page.header().crc_k_gains;
}

TokenSet CodedList::plain() const {
  TokenSet tokens = pages_.visible();
  for (size_t page = 0; page < size(); ++page) tokens[page] &= ~coded(page);
  return tokens;
}

std::vector<int8_t> CodedList::gains() const {
  std::vector<int8_t> gains;
  const StoredCodes codes = keys(first_coded_);
  for (uint32_t channel = 0; channel < codes.channels(); ++channel) {
    gains.push_back(static_cast<int8_t>(codes.gain(channel)));
  }
  return gains;
}

uint64_t CodedList::scan_bursts() const {
  uint64_t bursts = array_bursts(pages_[first_coded_].page, NKV_PAGE_ARRAY_K_GAINS);
  for (size_t page = 0; page < size(); ++page) {
    ++bursts;
    if (!is_coded(page)) continue;
    bursts += array_bursts(pages_[page].page, NKV_PAGE_ARRAY_CODE_SUMMARY) +
              array_bursts(pages_[page].page, NKV_PAGE_ARRAY_K_SIGNS);
  }
  return bursts;
}

uint64_t plane_bursts(uint32_t dim, uint64_t granules) {
  return granules * granule_tokens(dim) * (dim / 8) / NKV_BURST_BYTES;
}

}  // namespace nearkv::model

#include "coded_list.hpp"

#include "traffic.hpp"

namespace nearkv::model {

namespace {

bool have_common_codes(const ListedPages& pages) {
  for (const ListedPage& listed : pages) {
    if (!listed.page.has_codes() ||
        listed.page.code_head().crc_k_gains != pages[0].page.code_head().crc_k_gains) {
      return false;
    }
  }
  return pages.size() > 0;
}

}  // namespace

Verdict CodedList::open(const Domain& domain, const ScanInput& input, uint16_t head_dim,
                        std::optional<uint16_t> value_dim, std::optional<CodedList>* list) {
  list->reset();
  CodedList opened;
  PageDemand demand{
      .head_dim = head_dim, .value_dim = value_dim, .whole_header = false, .streamed = {}};
  Verdict verdict =
      ListedPages::open(domain, input.entries, input.visibility, demand, &opened.pages_);
  // Without codes a list is read by planes, which tells what is wrong with its pages, too.
  if (!verdict.ok() || !have_common_codes(opened.pages_)) return {};

  demand.streamed = {NKV_PAGE_ARRAY_CODE_HEAD, NKV_PAGE_ARRAY_CODE_SUMMARY, NKV_PAGE_ARRAY_K_SIGNS};
  verdict = ListedPages::open(domain, input.entries, input.visibility, demand, &opened.pages_);
  if (!verdict.ok()) return verdict;
  if (!have_common_codes(opened.pages_)) return {};  // Any more: somebody writes to them.
  for (const ListedPage& listed : opened.pages_) {
    if (listed.page.code_head().sign_set >= NKV_SIGN_SETS) {
      return {NKV_STATUS_BAD_PAGE, listed.index};
    }
  }
  const ListedPage& first = opened.pages_[0];
  if (!first.page.is_intact(NKV_PAGE_ARRAY_K_GAINS)) return {NKV_STATUS_CORRUPT, first.index};
  list->emplace(std::move(opened));
  return {};
}

std::vector<int8_t> CodedList::gains() const {
  std::vector<int8_t> gains;
  const StoredCodes codes = keys(0);
  for (uint32_t channel = 0; channel < codes.channels(); ++channel) {
    gains.push_back(static_cast<int8_t>(codes.gain(channel)));
  }
  return gains;
}

uint64_t CodedList::scan_bursts() const {
  uint64_t bursts = array_bursts(pages_[0].page, NKV_PAGE_ARRAY_K_GAINS);
  for (const ListedPage& listed : pages_) {
    bursts += 1 + array_bursts(listed.page, NKV_PAGE_ARRAY_CODE_HEAD) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_CODE_SUMMARY) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_K_SIGNS);
  }
  return bursts;
}

uint64_t plane_bursts(uint32_t dim, uint64_t granules) {
  return granules * granule_tokens(dim) * (dim / 8) / NKV_BURST_BYTES;
}

}  // namespace nearkv::model

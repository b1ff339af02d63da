// Lists of which pages have codes (section 12), and what reading those takes.
#ifndef NEARKV_MODEL_CODED_LIST_HPP_
#define NEARKV_MODEL_CODED_LIST_HPP_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "domain.hpp"
#include "page_list.hpp"
#include "scan_input.hpp"
#include "stored_codes.hpp"

namespace nearkv::model {

class CodedList {
 public:
  /// Opens the list for a command by codes: `list` stays empty if no page has any. `value_dim` as
  /// in PageDemand.
  static Verdict open(const Domain& domain, const ScanInput& input, uint16_t head_dim,
                      std::optional<uint16_t> value_dim, std::optional<CodedList>* list);

  [[nodiscard]] const ListedPages& pages() const { return pages_; }
  [[nodiscard]] ListedPages& pages() { return pages_; }
  [[nodiscard]] size_t size() const { return pages_.size(); }

  /// Whether a page is read by codes: it has some, under the gains of the first one that has.
  [[nodiscard]] bool is_coded(size_t page) const;

  /// Visible tokens of a page that is read by codes, none of another one.
  [[nodiscard]] TokenMask coded(size_t page) const {
    return is_coded(page) ? pages_[page].visible : 0;
  }

  /// Visible tokens of the pages that are not.
  [[nodiscard]] TokenSet plain() const;

  [[nodiscard]] StoredCodes keys(size_t page) const {
    return {pages_[page].page, CodedTensor::kKeys};
  }
  [[nodiscard]] StoredCodes values(size_t page) const {
    return {pages_[page].page, CodedTensor::kValues};
  }

  /// Gains of K, which all coded pages have in common.
  [[nodiscard]] std::vector<int8_t> gains() const;

  /// Bursts of the scan, but for the rows of pages that are not coded.
  [[nodiscard]] uint64_t scan_bursts() const;

 private:
  ListedPages pages_;
  size_t first_coded_ = 0;
};

/// Bursts of one plane of so many granules of rows of `dim` channels.
uint64_t plane_bursts(uint32_t dim, uint64_t granules);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODED_LIST_HPP_

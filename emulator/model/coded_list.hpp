// Lists whose pages all have codes (section 12), and what reading those takes.
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
  /// Opens the list for a command by codes, if its pages allow that: `list` stays empty if they
  /// have none or not the same gains. `value_dim` as in PageDemand.
  static Verdict open(const Domain& domain, const ScanInput& input, uint16_t head_dim,
                      std::optional<uint16_t> value_dim, std::optional<CodedList>* list);

  [[nodiscard]] const ListedPages& pages() const { return pages_; }
  [[nodiscard]] ListedPages& pages() { return pages_; }
  [[nodiscard]] size_t size() const { return pages_.size(); }

  [[nodiscard]] StoredCodes keys(size_t page) const {
    return {pages_[page].page, CodedTensor::kKeys};
  }
  [[nodiscard]] StoredCodes values(size_t page) const {
    return {pages_[page].page, CodedTensor::kValues};
  }

  /// Gains of K, which all pages have in common; nothing of an empty list.
  [[nodiscard]] std::vector<int8_t> gains() const;

  /// Bursts of the scan.
  [[nodiscard]] uint64_t scan_bursts() const;

 private:
  ListedPages pages_;
};

/// Bursts of one plane of so many granules of rows of `dim` channels.
uint64_t plane_bursts(uint32_t dim, uint64_t granules);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODED_LIST_HPP_

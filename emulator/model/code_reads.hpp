// What a command has read of a coded list besides the scan.
#ifndef NEARKV_MODEL_CODE_READS_HPP_
#define NEARKV_MODEL_CODE_READS_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coded_list.hpp"
#include "nkv_abi.h"
#include "page_list.hpp"
#include "traffic.hpp"

namespace nearkv::model {

/// Granules of a page, by number.
using GranulePlanes = std::array<uint8_t, NKV_PAGE_TOKENS>;

/// Of one tensor: planes by granule, whole rows by token.
struct TensorReads {
  uint32_t dim = 0;
  std::vector<GranulePlanes> planes;  ///< [page]
  TokenSet rows;

  TensorReads(const CodedList& list, uint32_t row_dim, uint8_t scanned_planes);

  [[nodiscard]] uint32_t granule() const { return granule_tokens(dim); }
  [[nodiscard]] uint32_t granules() const { return NKV_PAGE_TOKENS / granule(); }
  [[nodiscard]] int planes_of(size_t page, uint32_t token) const {
    return planes[page][token / granule()];
  }
  /// Tokens of a granule.
  [[nodiscard]] TokenMask tokens_of(uint32_t number) const;
  /// Bursts of one plane of one granule.
  [[nodiscard]] uint64_t burst_cost() const { return plane_bursts(dim, 1); }
};

struct CodeReads {
  TensorReads keys;
  TensorReads values;

  CodeReads(const CodedList& list, uint32_t head_dim, uint32_t value_dim);
};

/// What it costs to read `next` once `now`, which holds less, has been read.
Traffic reading_costs(const CodedList& list, const CodeReads& now, const CodeReads& next);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_READS_HPP_

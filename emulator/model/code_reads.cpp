#include "code_reads.hpp"

namespace nearkv::model {

namespace {

uint64_t plane_costs(const CodedList& list, const TensorReads& now, const TensorReads& next) {
  uint64_t bursts = 0;
  for (size_t page = 0; page < list.size(); ++page) {
    for (uint32_t granule = 0; granule < now.granules(); ++granule) {
      const int more = next.planes[page][granule] - now.planes[page][granule];
      bursts += static_cast<uint64_t>(more) * now.burst_cost();
    }
  }
  return bursts;
}

TokenSet without(const TokenSet& tokens, const TokenSet& others) {
  TokenSet rest;
  for (size_t page = 0; page < tokens.size(); ++page) {
    rest.push_back(tokens[page] & ~others[page]);
  }
  return rest;
}

}  // namespace

TensorReads::TensorReads(const CodedList& list, uint32_t row_dim, uint8_t scanned_planes)
    : dim(row_dim), planes(list.size()), rows(list.pages().none()) {
  for (GranulePlanes& page : planes) page.fill(scanned_planes);
}

TokenMask TensorReads::tokens_of(uint32_t number) const {
  const uint32_t size = granule();  // At most 32: rows have 16 channels or more.
  return (token_bit(size) - 1) << (number * size);
}

CodeReads::CodeReads(const CodedList& list, uint32_t head_dim, uint32_t value_dim)
    : keys(list, head_dim, 1), values(list, value_dim, 0) {}

Traffic reading_costs(const CodedList& list, const CodeReads& now, const CodeReads& next) {
  const TokenSet key_rows = without(next.keys.rows, now.keys.rows);
  const TokenSet value_rows = without(next.values.rows, now.values.rows);
  return {.stream = 0,
          .refine = plane_costs(list, now.keys, next.keys),
          .exact = key_row_bursts(list.pages(), key_rows),
          .value = plane_costs(list, now.values, next.values) +
                   value_row_bursts(list.pages(), value_rows)};
}

}  // namespace nearkv::model

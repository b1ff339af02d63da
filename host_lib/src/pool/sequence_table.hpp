// The records of a pool's sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nkv_abi.h"
#include "persist/persistence.hpp"

namespace nearkv {

/// Each record is kept twice, so that no wrong bit costs a whole sequence, and is changed one copy
/// after the other, so that a crash leaves the record as it was or as it was to be.
///
/// Thread safety: one thread at a time.
class SequenceTable {
 public:
  /// Takes up the records in `memory`; where only one copy is whole, or the second is older, it is
  /// made the other's again. What it goes by is durable when it returns.
  SequenceTable(std::span<std::byte> memory, const nkv_pool_header& header,
                Persistence* persistence);

  [[nodiscard]] std::size_t size() const { return records_.size(); }

  /// State FREE, ACTIVE or DROPPED; `crc` means nothing.
  [[nodiscard]] const nkv_sequence_record& operator[](std::size_t index) const {
    return records_[index];
  }

  /// The first record that is FREE.
  [[nodiscard]] std::optional<std::size_t> find_free() const;

  /// Durable when it returns.
  void write(std::size_t index, const nkv_sequence_record& record);

  /// Makes a record FREE, in the same way.
  void clear(std::size_t index) { write(index, {}); }

 private:
  static constexpr std::size_t kCopies = 2;

  [[nodiscard]] std::span<std::byte> place(std::size_t index, std::size_t copy) const;
  void take_up(std::size_t index);

  std::span<std::byte> table_;
  Persistence* persistence_;
  std::vector<nkv_sequence_record> records_;
};

}  // namespace nearkv

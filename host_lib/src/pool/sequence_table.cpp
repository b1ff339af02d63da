#include "pool/sequence_table.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "page/checksum.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kBody = offsetof(nkv_sequence_record, sequence_id);

std::uint32_t checksum(nkv_sequence_record record) {
  // The state belongs to it: an ACTIVE record must not pass for a FREE one.
  std::array<std::byte, sizeof(record) - sizeof(record.crc)> covered;
  const auto bytes = std::as_bytes(std::span(&record, 1));
  std::ranges::copy(bytes.first(sizeof(record.state)), covered.begin());
  std::ranges::copy(bytes.subspan(kBody), covered.begin() + sizeof(record.state));
  return crc32c(covered);
}

bool is_whole(const nkv_sequence_record& record) {
  return record.state <= NKV_SEQUENCE_STATE_DROPPED && record.crc == checksum(record);
}

}  // namespace

SequenceTable::SequenceTable(std::span<std::byte> memory, const nkv_pool_header& header,
                             Persistence* persistence)
    : table_(memory.subspan(header.sequences_at,
                            kCopies * header.max_sequences * sizeof(nkv_sequence_record))),
      persistence_(persistence),
      records_(header.max_sequences) {
  for (std::size_t index = 0; index < records_.size(); ++index) take_up(index);
}

std::span<std::byte> SequenceTable::place(std::size_t index, std::size_t copy) const {
  return table_.subspan((copy * records_.size() + index) * sizeof(nkv_sequence_record),
                        sizeof(nkv_sequence_record));
}

void SequenceTable::take_up(std::size_t index) {
  std::array<nkv_sequence_record, kCopies> copies{};
  for (std::size_t copy = 0; copy < kCopies; ++copy) {
    std::memcpy(&copies[copy], place(index, copy).data(), sizeof(copies[copy]));
  }
  const auto whole = std::ranges::find_if(copies, is_whole);
  if (whole != copies.end()) records_[index] = *whole;
  // Where they differ, the first may be in the caches only, left there by a process that died.
  if (!std::ranges::equal(place(index, 0), place(index, 1))) write(index, records_[index]);
}

std::optional<std::size_t> SequenceTable::find_free() const {
  const auto free =
      std::ranges::find(records_, NKV_SEQUENCE_STATE_FREE, &nkv_sequence_record::state);
  if (free == records_.end()) return std::nullopt;
  return static_cast<std::size_t>(free - records_.begin());
}

void SequenceTable::write(std::size_t index, const nkv_sequence_record& record) {
  nkv_sequence_record written = record;
  written.crc = checksum(record);
  const auto body = std::as_bytes(std::span(&written, 1)).subspan(kBody);
  const std::uint64_t word = written.state | std::uint64_t{written.crc} << 32;
  for (std::size_t copy = 0; copy < kCopies; ++copy) {
    const std::span<std::byte> bytes = place(index, copy);
    std::ranges::copy(body, bytes.subspan(kBody).begin());
    persistence_->write_back(bytes.subspan(kBody));
    persistence_->fence();
    persistence_->publish(bytes.data(), word);
    persistence_->fence();
  }
  records_[index] = written;
}

}  // namespace nearkv

// An object's parts as they are stored: plain or sealed, and behind them what each has to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "object/namespace_table.hpp"
#include "object/part_range.hpp"
#include "object/payload.hpp"
#include "object/seals.hpp"

namespace nearkv {

/// Bytes that stand behind an object's payload: for each part its checksum or, if it is sealed, its
/// nkv_object_seal. None if a plain object has no parts: then its record has the checksum.
[[nodiscard]] std::uint64_t trailer_bytes(const nkv_object_record& record);

/// Of one part.
[[nodiscard]] std::uint64_t trailer_entry_bytes(const nkv_object_record& record);

/// Writes and reads what records name. Records must be sane (Objects::adopt). All statuses are a
/// Payload's, and: kCorrupt if a checksum is wrong; kDenied for what is sealed with a key that is
/// not here, or is not what was sealed though its checksum is right. Thread safety: all calls.
class StoredParts {
 public:
  /// Without `seals` new objects stay plain. `payload` and `namespaces` outlive this.
  StoredParts(Payload* payload, const NamespaceTable* namespaces, std::unique_ptr<Seals> seals)
      : payload_(payload), namespaces_(namespaces), seals_(std::move(seals)) {}

  /// Whether new objects are to be sealed (NKV_OBJECT_FLAG_SEALED).
  [[nodiscard]] bool seals_new() const { return seals_ != nullptr; }

  /// Writes all of an object, and the checksum to its record.
  Status write(std::span<const Extent> extents, SourceCursor* from, nkv_object_record* record);

  /// Writes one part, and what its entry of the trailer has to be to `entry`.
  Status write_part(std::span<const Extent> extents, const nkv_object_record& record,
                    std::uint32_t part, SourceCursor* from, std::span<std::byte> entry);

  /// Writes the trailer of an object that came in parts, and its checksum to its record.
  Status write_trailer(std::span<const Extent> extents, std::span<const std::byte> trailer,
                       nkv_object_record* record);

  /// Reads parts [first, first + count), all of them in the record.
  Status read(std::span<const Extent> extents, const nkv_object_record& record, std::uint32_t first,
              std::uint32_t count, TargetCursor* to);

  /// Reads all of an object and compares checksums, which takes no key.
  Status verify(std::span<const Extent> extents, const nkv_object_record& record);

 private:
  /// Gives a range to the sink; kCorrupt if its checksum is another.
  Status read_checked(std::span<const Extent> extents, const PartRange& range,
                      std::uint32_t expected, ByteSink* sink);
  Status read_trailer(std::span<const Extent> extents, const nkv_object_record& record,
                      std::vector<std::byte>* trailer);
  Status lend(const nkv_object_record& record, Seals::Loan* loan) const;

  Payload* payload_;
  const NamespaceTable* namespaces_;
  std::unique_ptr<Seals> seals_;
};

}  // namespace nearkv

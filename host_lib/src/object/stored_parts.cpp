#include "object/stored_parts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "media/sealed_streams.hpp"

namespace nearkv {
namespace {

bool sealed(const nkv_object_record& record) {
  return (record.flags & NKV_OBJECT_FLAG_SEALED) != 0;
}

/// Parts with an entry in the trailer.
std::uint32_t entries(const nkv_object_record& record) {
  return sealed(record) ? std::max<std::uint32_t>(record.parts, 1) : record.parts;
}

/// The checksum that an entry of the trailer has.
std::uint32_t checksum_in(const nkv_object_record& record, const std::byte* entry) {
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, sealed(record) ? entry + offsetof(nkv_object_seal, crc) : entry,
              sizeof(checksum));
  return checksum;
}

/// What a sealed part authenticates besides its bytes, as nkv_object_seal has it.
using PartIdentity =
    std::array<std::byte, sizeof(NamespaceInfo::digest) + sizeof(nkv_object_record::key) +
                              sizeof(nkv_object_record::key_bytes) +
                              sizeof(nkv_object_record::parts) + sizeof(nkv_object_record::bytes) +
                              sizeof(std::uint32_t)>;

PartIdentity identity_of(const NamespaceDigest& digest, const nkv_object_record& record,
                         std::uint32_t part) {
  PartIdentity identity;
  std::byte* at = identity.data();
  const auto add = [&at](const void* field, std::size_t bytes) {
    std::memcpy(at, field, bytes);
    at += bytes;
  };
  add(digest.data(), digest.size());
  add(record.key, sizeof(record.key));
  add(&record.key_bytes, sizeof(record.key_bytes));
  add(&record.parts, sizeof(record.parts));
  add(&record.bytes, sizeof(record.bytes));
  add(&part, sizeof(part));
  return identity;
}

/// Seals parts of one object, one behind the other.
class SealedPieces {
 public:
  SealedPieces(const NamespaceDigest& digest, Sealer* sealer, SourceCursor* from)
      : digest_(digest), sealer_(sealer), from_(from) {}

  /// `seal` is filled while the piece is taken.
  PayloadPiece add(const nkv_object_record& record, std::uint32_t part, nkv_object_seal* seal) {
    const std::uint64_t bytes = part_range(record, part, 1).bytes;
    const PartIdentity& identity = identities_.emplace_back(identity_of(digest_, record, part));
    return {bytes, &sources_.emplace_back(sealer_, from_, identity, bytes, seal), &seal->crc};
  }

  /// Of all sources, once they have been taken.
  [[nodiscard]] Status status() const {
    for (const SealingSource& source : sources_) {
      if (source.status() != Status::kOk) return source.status();
    }
    return Status::kOk;
  }

 private:
  NamespaceDigest digest_;
  Sealer* sealer_;
  SourceCursor* from_;
  std::deque<PartIdentity> identities_;
  std::deque<SealingSource> sources_;
};

}  // namespace

std::uint64_t trailer_entry_bytes(const nkv_object_record& record) {
  return sealed(record) ? sizeof(nkv_object_seal) : sizeof(std::uint32_t);
}

std::uint64_t trailer_bytes(const nkv_object_record& record) {
  return entries(record) * trailer_entry_bytes(record);
}

Status StoredParts::lend(const nkv_object_record& record, Seals::Loan* loan) const {
  return seals_ == nullptr ? Status::kDenied : seals_->lend(record.tenant, loan);
}

Status StoredParts::write(std::span<const Extent> extents, SourceCursor* from,
                          nkv_object_record* record) {
  SegmentSource plain(from);
  if (entries(*record) == 0) {
    const PayloadPiece piece{record->bytes, &plain, &record->payload_crc};
    return payload_->write(extents, 0, std::span(&piece, 1));
  }
  // Behind the parts stands what each has to be, known once they have been taken.
  std::vector<nkv_object_seal> seals(sealed(*record) ? entries(*record) : 0);
  std::vector<std::uint32_t> checksums(sealed(*record) ? 0 : entries(*record));
  const std::span<const std::byte> trailer =
      sealed(*record) ? std::as_bytes(std::span(seals)) : std::as_bytes(std::span(checksums));
  Seals::Loan loan;
  if (sealed(*record)) {
    if (const Status status = lend(*record, &loan); status != Status::kOk) return status;
  }
  SealedPieces secret(namespaces_->digest(record->namespace_number).value_or(NamespaceDigest{}),
                      loan.get(), from);
  std::vector<PayloadPiece> pieces;
  pieces.reserve(entries(*record) + std::size_t{1});
  for (std::uint32_t part = 0; part < entries(*record); ++part) {
    pieces.push_back(sealed(*record) ? secret.add(*record, part, &seals[part])
                                     : PayloadPiece{part_range(*record, part, 1).bytes, &plain,
                                                    &checksums[part]});
  }
  SourceCursor trailer_cursor(std::span(&trailer, 1));
  SegmentSource trailer_source(&trailer_cursor);
  pieces.push_back({trailer.size(), &trailer_source, &record->payload_crc});
  const Status status = payload_->write(extents, 0, pieces);
  return status == Status::kOk ? secret.status() : status;
}

Status StoredParts::write_part(std::span<const Extent> extents, const nkv_object_record& record,
                               std::uint32_t part, SourceCursor* from, std::span<std::byte> entry) {
  const PartRange range = part_range(record, part, 1);
  if (!sealed(record)) {
    std::uint32_t crc = 0;
    SegmentSource source(from);
    const PayloadPiece piece{range.bytes, &source, &crc};
    const Status status = payload_->write(extents, range.offset, std::span(&piece, 1));
    std::memcpy(entry.data(), &crc, sizeof(crc));
    return status;
  }
  Seals::Loan loan;
  if (const Status status = lend(record, &loan); status != Status::kOk) return status;
  SealedPieces secret(namespaces_->digest(record.namespace_number).value_or(NamespaceDigest{}),
                      loan.get(), from);
  nkv_object_seal seal{};
  const PayloadPiece piece = secret.add(record, part, &seal);
  const Status status = payload_->write(extents, range.offset, std::span(&piece, 1));
  std::memcpy(entry.data(), &seal, sizeof(seal));
  return status == Status::kOk ? secret.status() : status;
}

Status StoredParts::write_trailer(std::span<const Extent> extents,
                                  std::span<const std::byte> trailer, nkv_object_record* record) {
  SourceCursor cursor(std::span(&trailer, 1));
  SegmentSource source(&cursor);
  const PayloadPiece piece{trailer.size(), &source, &record->payload_crc};
  return payload_->write(extents, record->bytes, std::span(&piece, 1));
}

Status StoredParts::read_trailer(std::span<const Extent> extents, const nkv_object_record& record,
                                 std::vector<std::byte>* trailer) {
  trailer->resize(trailer_bytes(record));
  const std::span<std::byte> space(*trailer);
  TargetCursor cursor(std::span(&space, 1));
  SegmentSink sink(&cursor);
  return read_checked(extents, {record.bytes, trailer->size()}, record.payload_crc, &sink);
}

Status StoredParts::read_checked(std::span<const Extent> extents, const PartRange& range,
                                 std::uint32_t expected, ByteSink* sink) {
  std::uint32_t crc = 0;
  const Status status = payload_->read(extents, range.offset, range.bytes, sink, &crc);
  return status == Status::kOk && crc != expected ? Status::kCorrupt : status;
}

Status StoredParts::read(std::span<const Extent> extents, const nkv_object_record& record,
                         std::uint32_t first, std::uint32_t count, TargetCursor* to) {
  SegmentSink plain(to);
  if (entries(record) == 0) {
    return read_checked(extents, {0, record.bytes}, record.payload_crc, &plain);
  }
  std::vector<std::byte> trailer;
  Status status = read_trailer(extents, record, &trailer);
  Seals::Loan loan;
  if (status == Status::kOk && sealed(record)) status = lend(record, &loan);
  NamespaceDigest digest{};
  if (sealed(record)) {
    digest = namespaces_->digest(record.namespace_number).value_or(NamespaceDigest{});
  }
  for (std::uint32_t part = first; part < first + count && status == Status::kOk; ++part) {
    const PartRange range = part_range(record, part, 1);
    const std::byte* const entry = trailer.data() + part * trailer_entry_bytes(record);
    const std::uint32_t expected = checksum_in(record, entry);
    if (!sealed(record)) {
      status = read_checked(extents, range, expected, &plain);
      continue;
    }
    if (range.bytes == 0) continue;  // Was never sealed.
    nkv_object_seal seal{};
    std::memcpy(&seal, entry, sizeof(seal));
    const PartIdentity identity = identity_of(digest, record, part);
    OpeningSink opened(loan.get(), to, identity, seal);
    status = read_checked(extents, range, expected, &opened);
    if (status == Status::kOk) {
      status = opened.finish();
    } else {
      opened.discard();
    }
  }
  return status;
}

Status StoredParts::verify(std::span<const Extent> extents, const nkv_object_record& record) {
  ChecksumSink sink;
  if (entries(record) == 0) {
    return read_checked(extents, {0, record.bytes}, record.payload_crc, &sink);
  }
  std::vector<std::byte> trailer;
  Status status = read_trailer(extents, record, &trailer);
  for (std::uint32_t part = 0; part < entries(record) && status == Status::kOk; ++part) {
    const std::byte* const entry = trailer.data() + part * trailer_entry_bytes(record);
    status = read_checked(extents, part_range(record, part, 1), checksum_in(record, entry), &sink);
  }
  return status;
}

}  // namespace nearkv

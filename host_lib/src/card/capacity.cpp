#include "card/capacity.hpp"

#include <algorithm>
#include <span>

namespace nearkv {
namespace {

constexpr std::size_t kExtentBytes = 40;
constexpr std::size_t kEntryBytes = 24;
constexpr std::size_t kListHeaderBytes = 8;

CapacityExtent extent_at(const CardMailbox::Answer& answer, std::size_t at) {
  CapacityExtent extent{
      .address = answer.number(at, 8), .bytes = answer.number(at + 8, 8), .tag = {}};
  if (at + kExtentBytes <= answer.payload.size()) {
    std::ranges::copy(std::span(answer.payload).subspan(at + 16, extent.tag.size()),
                      extent.tag.begin());
  }
  return extent;
}

void append_zeros(std::vector<std::byte>* payload, std::size_t count) {
  payload->resize(payload->size() + count);
}

/// A fabric manager's request, before its extents.
std::vector<std::byte> request(unsigned flags, std::uint64_t bytes, const CapacityTag& tag,
                               std::size_t extents) {
  std::vector<std::byte> payload;
  append_number(&payload, 0, 2);  // Host.
  append_number(&payload, flags, 1);
  append_number(&payload, 0, 1);  // Region.
  append_number(&payload, bytes, 8);
  payload.insert(payload.end(), tag.begin(), tag.end());
  append_number(&payload, extents, 4);
  return payload;
}

std::vector<std::byte> list_of(std::span<const CapacityExtent> extents, bool has_more) {
  std::vector<std::byte> payload;
  append_number(&payload, extents.size(), 4);
  append_number(&payload, has_more ? 1 : 0, 4);
  for (const CapacityExtent& extent : extents) {
    append_number(&payload, extent.address, 8);
    append_number(&payload, extent.bytes, 8);
    append_zeros(&payload, kEntryBytes - 16);
  }
  return payload;
}

Status read_region(CardMailbox* mailbox, Capacity* capacity, std::string* reason) {
  constexpr std::size_t kRegionAt = 8;
  std::vector<std::byte> payload;
  append_number(&payload, 1, 1);  // Of one region,
  append_number(&payload, 0, 1);  // the first.
  CardMailbox::Answer answer;
  const Status status =
      mailbox->require(NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY, payload, &answer, reason);
  if (status == Status::kUnsupported) *reason = "the card has no dynamic capacity";
  capacity->address = answer.number(kRegionAt, 8);
  capacity->bytes = answer.number(kRegionAt + 16, 8);
  capacity->block_bytes = answer.number(kRegionAt + 24, 8);
  return status;
}

/// The extents, of which an answer has room for some; kBusy if they are not of one generation.
Status read_extents(CardMailbox* mailbox, Capacity* capacity, std::string* reason) {
  constexpr std::size_t kHeaderBytes = 16;
  capacity->extents.clear();
  for (;;) {
    std::vector<std::byte> payload;
    append_number(&payload, UINT32_MAX, 4);
    append_number(&payload, capacity->extents.size(), 4);
    CardMailbox::Answer answer;
    const Status status =
        mailbox->require(NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS, payload, &answer, reason);
    if (status != Status::kOk) return status;
    const std::uint64_t generation = answer.number(8, 4);
    if (!capacity->extents.empty() && generation != capacity->generation) {
      *reason = "the card's extents change all the time; try again";
      return Status::kBusy;
    }
    capacity->generation = static_cast<std::uint32_t>(generation);
    const std::uint64_t count = answer.number(0, 4);
    for (std::size_t i = 0; i < count; ++i) {
      capacity->extents.push_back(extent_at(answer, kHeaderBytes + i * kExtentBytes));
    }
    if (count == 0 || capacity->extents.size() >= answer.number(4, 4)) return Status::kOk;
  }
}

}  // namespace

Status read_capacity(CardMailbox* mailbox, Capacity* capacity, std::string* reason) {
  constexpr int kTries = 3;
  Status status = read_region(mailbox, capacity, reason);
  if (status != Status::kOk) return status;
  for (int i = 0; i < kTries; ++i) {
    status = read_extents(mailbox, capacity, reason);
    if (status != Status::kBusy) break;
  }
  return status;
}

Status offer_capacity(CardMailbox* mailbox, std::uint64_t bytes, const CapacityTag& tag,
                      bool is_contiguous, std::string* reason) {
  constexpr unsigned kContiguous = 1;
  CardMailbox::Answer answer;
  return mailbox->require(NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD,
                          request(is_contiguous ? kContiguous : 0, bytes, tag, 0), &answer, reason);
}

Status take_capacity(CardMailbox* mailbox, const CapacityExtent& extent, bool is_forced,
                     std::string* reason) {
  constexpr unsigned kByExtent = 1;
  constexpr unsigned kForced = 1 << 4;
  std::vector<std::byte> payload = request(kByExtent | (is_forced ? kForced : 0), 0, {}, 1);
  append_number(&payload, extent.address, 8);
  append_number(&payload, extent.bytes, 8);
  append_zeros(&payload, kExtentBytes - 16);
  CardMailbox::Answer answer;
  return mailbox->require(NKV_CCI_OPCODE_INITIATE_DYNAMIC_RELEASE, payload, &answer, reason);
}

Status take_capacity_events(CardMailbox* mailbox, std::vector<CapacityEvent>* events,
                            std::string* reason) {
  constexpr unsigned kCapacityLog = 4;
  constexpr std::size_t kHeaderBytes = 32;
  constexpr std::size_t kRecordBytes = 128;
  constexpr std::uint64_t kMoreRecords = 2;
  events->clear();
  for (;;) {
    std::vector<std::byte> log;
    append_number(&log, kCapacityLog, 1);
    CardMailbox::Answer answer;
    Status status = mailbox->require(NKV_CCI_OPCODE_GET_EVENT_RECORDS, log, &answer, reason);
    const std::uint64_t count = answer.number(20, 2);
    if (status != Status::kOk || count == 0) return status;

    std::vector<std::byte> handles = log;
    append_number(&handles, 0, 1);
    append_number(&handles, count, 1);
    append_zeros(&handles, 3);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = kHeaderBytes + i * kRecordBytes;
      const std::uint64_t kind = answer.number(at + 48, 1);
      append_number(&handles, answer.number(at + 20, 2), 2);
      if (kind > static_cast<std::uint64_t>(CapacityEventKind::kTaken)) continue;
      events->push_back(
          {.kind = static_cast<CapacityEventKind>(kind), .extent = extent_at(answer, at + 56)});
    }
    const bool has_more = (answer.number(0, 1) & kMoreRecords) != 0;
    status = mailbox->require(NKV_CCI_OPCODE_CLEAR_EVENT_RECORDS, handles, &answer, reason);
    if (status != Status::kOk || !has_more) return status;
  }
}

Status answer_offer(CardMailbox* mailbox, const std::vector<CapacityExtent>& accepted,
                    std::string* reason) {
  constexpr std::size_t kMost = (NKV_MAILBOX_BYTES - kListHeaderBytes) / kEntryBytes;
  std::span<const CapacityExtent> rest(accepted);
  do {
    const auto part = rest.first(std::min(kMost, rest.size()));
    rest = rest.subspan(part.size());
    CardMailbox::Answer answer;
    const Status status = mailbox->require(NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE,
                                           list_of(part, !rest.empty()), &answer, reason);
    if (status != Status::kOk) return status;
  } while (!rest.empty());
  return Status::kOk;
}

Status release_capacity(CardMailbox* mailbox, const CapacityExtent& extent, std::string* reason) {
  CardMailbox::Answer answer;
  return mailbox->require(NKV_CCI_OPCODE_RELEASE_DYNAMIC, list_of({&extent, 1}, false), &answer,
                          reason);
}

}  // namespace nearkv

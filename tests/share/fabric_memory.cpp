#include "share/fabric_memory.hpp"

#include <array>
#include <utility>

namespace nearkv::test {
namespace {

/// Calls part(offset, bytes) for the pieces of a range that lie in one word each.
template <typename Part>
void for_each_word(std::uint64_t at, std::uint64_t bytes, Part part) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t left_of_word = fabric::kWordBytes - (at + done) % fabric::kWordBytes;
    const std::uint64_t size = std::min(left_of_word, bytes - done);
    part(done, size);
    done += size;
  }
}

}  // namespace

std::string Omission::name() const {
  constexpr std::array kCalls{"flush", "invalidation", "fence after the flush",
                              "fence after the invalidation"};
  constexpr std::array kRecords{"(before a confirmation)",
                                "header",
                                "host line",
                                "log entry",
                                "ack",
                                "lease",
                                "message",
                                "payload",
                                "whole region"};
  return std::string(kCalls[static_cast<std::size_t>(call)]) + ", " +
         kRecords[static_cast<std::size_t>(record)];
}

RecordMap::RecordMap(const Region& region)
    : records_(region.total_bytes() / NKV_BURST_BYTES, Record::kPayload) {
  const auto mark = [&](std::uint64_t at, Record record) {
    records_[at / NKV_BURST_BYTES] = record;
  };
  mark(0, Record::kHeader);
  for (std::uint16_t host = 0; host < region.hosts(); ++host) {
    for (std::uint8_t area = 0; area < kLogAreas; ++area) {
      for (std::uint64_t i = 0; i < 2; ++i) mark(region.line_at(host, area, i), Record::kLine);
      for (std::uint64_t i = 0; i < region.log_entries(); ++i) {
        mark(region.entry_at(host, area, i), Record::kEntry);
      }
    }
    for (std::uint16_t peer = 0; peer < region.hosts(); ++peer) {
      mark(region.ack_at(host, peer), Record::kAck);
      for (std::uint64_t i = 0; i < region.messages(); ++i) {
        mark(region.message_at(host, peer, i), Record::kMessage);
      }
    }
    for (std::uint16_t i = 0; i < region.leases(); ++i) {
      mark(region.lease_at(host, i), Record::kLease);
    }
  }
}

bool FabricMemory::is_omitted(Omission::Call call, std::uint64_t at, std::uint64_t bytes) {
  if (map_ == nullptr) return false;
  const bool is_whole = at == 0 && bytes > NKV_BURST_BYTES;
  last_ = {call, is_whole ? Record::kWholeRegion : map_->at(at)};
  return omission_ && omission_->call == call && omission_->record == last_.record;
}

void FabricMemory::copy_out(std::uint64_t at, std::span<std::byte> bytes) {
  for_each_word(at, bytes.size(), [&](std::uint64_t offset, std::uint64_t size) {
    before_access_();
    cache_.load(at + offset, bytes.subspan(offset, size));
  });
}

void FabricMemory::copy_in(std::uint64_t at, std::span<const std::byte> bytes) {
  for_each_word(at, bytes.size(), [&](std::uint64_t offset, std::uint64_t size) {
    before_access_();
    cache_.store(at + offset, bytes.subspan(offset, size));
  });
}

void FabricMemory::flush(std::uint64_t at, std::uint64_t bytes) {
  before_access_();
  if (!is_omitted(Omission::Call::kFlush, at, bytes)) cache_.flush(at, bytes);
}

void FabricMemory::invalidate(std::uint64_t at, std::uint64_t bytes) {
  before_access_();
  if (!is_omitted(Omission::Call::kInvalidate, at, bytes)) cache_.invalidate(at, bytes);
}

void FabricMemory::fence() {
  before_access_();
  Omission site = std::exchange(last_, {});
  // These are looked at without a fence of their own.
  if (site.call == Omission::Call::kInvalidate &&
      (site.record == Record::kAck || site.record == Record::kMessage)) {
    site = {};
  }
  if (site.call == Omission::Call::kInvalidate) {
    site.call = Omission::Call::kFenceAfterInvalidate;
  } else {
    site.call = Omission::Call::kFenceAfterFlush;
    // Other records are flushed and go on; the fence before a confirmation is for all of them.
    const bool has_own_fence = site.record == Record::kHeader || site.record == Record::kLine ||
                               site.record == Record::kLease || site.record == Record::kPayload ||
                               site.record == Record::kWholeRegion;
    if (!has_own_fence) site.record = Record::kNone;
  }
  if (omission_ != site) cache_.fence();
}

}  // namespace nearkv::test

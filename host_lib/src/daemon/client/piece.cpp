#include "daemon/client/piece.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "media/byte_streams.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

// Large enough to be worth its completion; small enough that the next is written meanwhile.
constexpr std::uint64_t kRequestBytes = 64 << 10;
constexpr std::uint64_t kCarriedBytes = 4 << 20;
constexpr std::uint64_t kCarriedAlignment = 64;

/// Calls visit(bytes, place, carried_offset) for each segment of an item; `place` is nothing for
/// one that is carried. What is longer than any object is cut off (kGet) or left out (kSet), since
/// the daemon would refuse it. Gives the bytes carried.
template <typename Segments, typename Visit>
std::uint64_t visit_segments(const Segments& segments, bool cut, const ClientMemory& memory,
                             Visit visit) {
  std::uint64_t left = NKV_MAX_OBJECT_BYTES;
  std::uint64_t total = 0;
  for (const auto& segment : segments) total += segment.size();
  if (total > NKV_MAX_OBJECT_BYTES && !cut) return 0;
  std::uint64_t carried = 0;
  for (const auto& segment : segments) {
    const auto bytes = segment.first(std::min<std::uint64_t>(segment.size(), left));
    left -= bytes.size();
    if (bytes.empty()) continue;
    const auto place = memory.find(bytes);
    visit(bytes, place, carried);
    if (!place) carried += bytes.size();
  }
  return round_up(carried, kCarriedAlignment);
}

bool brings_bytes(const Job& job) {
  return job.kind == JobKind::kSet || job.kind == JobKind::kSetParts;
}

/// The same for whichever list the job's kind uses.
template <typename Visit>
std::uint64_t visit_item(const Job& job, const ObjectItem& item, const ClientMemory& memory,
                         Visit visit) {
  if (brings_bytes(job)) return visit_segments(item.source, false, memory, visit);
  if (job.kind == JobKind::kGet) return visit_segments(item.target, true, memory, visit);
  return 0;
}

Key parent_of(const Job& job, std::size_t first) {
  return first == 0 || !job.chain ? job.parent : job.items[first - 1].key;
}

}  // namespace

Piece plan_piece(const Job& job, std::size_t first, const ClientMemory& memory) {
  Piece piece;
  piece.first = first;
  std::uint64_t bytes = parent_of(job, first).size();
  for (std::size_t i = first; i < job.items.size(); ++i) {
    std::uint64_t segments = 0;
    bool last_carried = false;
    bool is_in_region = false;
    const std::uint64_t carried =
        visit_item(job, job.items[i], memory, [&](auto, const auto& place, std::uint64_t) {
          segments += place || !last_carried ? 1 : 0;
          last_carried = !place;
          is_in_region |= place.has_value();
        });
    const std::uint64_t item_bytes =
        sizeof(nkv_daemon_item) + segments * sizeof(nkv_daemon_segment) + job.items[i].key.size();
    if (piece.count != 0 &&
        (bytes + item_bytes > kRequestBytes || piece.carried_bytes + carried > kCarriedBytes)) {
      break;
    }
    bytes += item_bytes;
    piece.segments += segments;
    piece.carried_bytes += carried;
    piece.has_regions |= is_in_region;
    ++piece.count;
  }
  piece.request_bytes = round_up(bytes, sizeof(std::uint64_t));
  piece.result_bytes =
      round_up(piece.count * (sizeof(std::uint32_t) + sizeof(std::uint8_t)), sizeof(std::uint64_t));
  return piece;
}

void write_piece(const Job& job, const Piece& piece, const ClientMemory& memory,
                 std::span<std::byte> request, std::span<std::byte> carried,
                 std::uint64_t carried_at, nkv_daemon_submission* submission) {
  const std::uint64_t segments_at = piece.count * sizeof(nkv_daemon_item);
  std::uint64_t keys_at = segments_at + piece.segments * sizeof(nkv_daemon_segment);
  std::uint32_t segments = 0;
  std::uint64_t carried_before = 0;
  const auto put_key = [&](Key key, std::uint32_t* at, std::uint32_t* bytes) {
    *at = static_cast<std::uint32_t>(keys_at);
    *bytes = static_cast<std::uint32_t>(key.size());
    if (!key.empty()) std::memcpy(request.data() + keys_at, key.data(), key.size());
    keys_at += key.size();
  };
  for (std::size_t i = 0; i < piece.count; ++i) {
    const ObjectItem& item = job.items[piece.first + i];
    nkv_daemon_item wire{};
    wire.first_segment = segments;
    wire.first_part = item.first_part;
    wire.part_count = item.part_count;
    wire.key_is_digest = item.key_is_digest ? 1 : 0;
    wire.generation = item.generation;
    nkv_daemon_segment segment{};
    bool last_carried = false;
    const auto put_segment = [&] {
      std::memcpy(request.data() + segments_at + segments * sizeof(segment), &segment,
                  sizeof(segment));
      ++segments;
    };
    const std::uint64_t carried_by_item =
        visit_item(job, item, memory, [&](auto bytes, const auto& place, std::uint64_t offset) {
          // Carried neighbours are one segment.
          if (last_carried && place) put_segment();
          if (!place && brings_bytes(job)) {
            std::memcpy(carried.data() + carried_before + offset, bytes.data(), bytes.size());
          }
          if (last_carried && !place) {
            segment.bytes += static_cast<std::uint32_t>(bytes.size());
            return;
          }
          segment.region = place ? place->region : memory.carrier_region();
          segment.offset = place ? place->offset : carried_at + carried_before + offset;
          segment.bytes = static_cast<std::uint32_t>(bytes.size());
          if (place) put_segment();
          last_carried = !place;
        });
    if (last_carried) put_segment();
    carried_before += carried_by_item;
    wire.segments = segments - wire.first_segment;
    put_key(item.key, &wire.key_at, &wire.key_bytes);
    std::memcpy(request.data() + i * sizeof(wire), &wire, sizeof(wire));
  }
  submission->operation = static_cast<std::uint8_t>(job.kind);
  submission->number = job.namespace_number;
  submission->items = static_cast<std::uint32_t>(piece.count);
  if (job.quiet) submission->flags = NKV_DAEMON_FLAG_QUIET;
  if (!brings_bytes(job)) return;
  submission->parts = job.parts;
  submission->object_bytes = job.object_bytes;
  submission->argument = static_cast<std::uint64_t>(std::max<std::int64_t>(job.age.count(), 0));
  submission->flags = static_cast<std::uint8_t>((job.chain ? NKV_DAEMON_FLAG_CHAIN : 0U) |
                                                (job.overwrite ? NKV_DAEMON_FLAG_OVERWRITE : 0U) |
                                                (job.evict ? 0U : NKV_DAEMON_FLAG_KEEP));
  put_key(parent_of(job, piece.first), &submission->parent_at, &submission->parent_bytes);
}

void read_piece(const Job& job, const Piece& piece, const ClientMemory& memory,
                std::span<const std::byte> result, std::span<const std::byte> carried,
                JobResult* to) {
  std::uint32_t* const sizes = to->object_bytes.data() + piece.first;
  Status* const statuses = to->items.data() + piece.first;
  std::memcpy(sizes, result.data(), piece.count * sizeof(*sizes));
  std::memcpy(statuses, result.data() + piece.count * sizeof(*sizes), piece.count);
  for (std::size_t i = 0; i < piece.count && brings_bytes(job); ++i) {
    const SourceCursor source(job.items[piece.first + i].source);
    // Its bytes were left out.
    if (source.remaining_bytes() > NKV_MAX_OBJECT_BYTES) statuses[i] = Status::kObjectTooLarge;
  }
  if (job.kind != JobKind::kGet || piece.carried_bytes == 0) return;
  std::uint64_t carried_before = 0;
  for (std::size_t i = 0; i < piece.count; ++i) {
    std::uint64_t left = statuses[i] == Status::kOk ? sizes[i] : 0;
    carried_before +=
        visit_segments(job.items[piece.first + i].target, true, memory,
                       [&](std::span<std::byte> bytes, const auto& place, std::uint64_t offset) {
                         const std::uint64_t taken = std::min<std::uint64_t>(bytes.size(), left);
                         left -= taken;
                         if (place || taken == 0) return;
                         std::memcpy(bytes.data(), carried.data() + carried_before + offset, taken);
                       });
  }
}

}  // namespace nearkv

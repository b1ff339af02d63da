#include "remote/runs.hpp"

#include <cstring>

namespace nearkv {

void append_run(std::vector<Run>* runs, const Run& run) {
  if (run.bytes == 0) return;
  if (!runs->empty() && runs->back().offset + runs->back().bytes == run.offset) {
    runs->back().bytes += run.bytes;
  } else {
    runs->push_back(run);
  }
}

std::optional<std::vector<std::vector<Run>>> runs_of_items(std::span<const std::byte> request,
                                                           std::uint32_t items,
                                                           std::uint64_t data_bytes) {
  const std::uint64_t segments_at = std::uint64_t{items} * sizeof(nkv_daemon_item);
  if (segments_at > request.size()) return std::nullopt;
  const std::uint64_t segments = (request.size() - segments_at) / sizeof(nkv_daemon_segment);
  std::vector<std::vector<Run>> all(items);
  std::uint64_t named = 0;
  for (std::uint32_t i = 0; i < items; ++i) {
    nkv_daemon_item item{};
    std::memcpy(&item, request.data() + std::uint64_t{i} * sizeof(item), sizeof(item));
    // Each segment is one item's, or a small request could name a great many runs.
    named += item.segments;
    if (named > segments || item.first_segment > segments - item.segments) return std::nullopt;
    for (std::uint64_t k = 0; k < item.segments; ++k) {
      nkv_daemon_segment segment{};
      std::memcpy(&segment,
                  request.data() + segments_at + (item.first_segment + k) * sizeof(segment),
                  sizeof(segment));
      if (segment.region != 0 || segment.offset > data_bytes ||
          segment.bytes > data_bytes - segment.offset) {
        return std::nullopt;
      }
      append_run(&all[i], {segment.offset, segment.bytes});
    }
  }
  return all;
}

}  // namespace nearkv

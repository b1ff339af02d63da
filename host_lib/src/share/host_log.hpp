// Append-only logs in the shared region: one writer each, any number of readers.
#pragma once

#include <cstdint>
#include <optional>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "share/region.hpp"

namespace nearkv {

/// One incarnation's log.
struct LogName {
  std::uint16_t host = 0;
  std::uint32_t epoch = 0;
  std::uint8_t area = 0;

  auto operator<=>(const LogName&) const = default;
};

/// The owner's end. Entries are written ahead of the head, where only a successor looks; `publish`
/// moves the head over them once the membership has confirmed that this incarnation was alive after
/// they had reached memory. So a successor, who reads after the fence, sees all that was published.
class LogWriter {
 public:
  LogWriter(SharedMemory& memory, const Region& region, const LogName& name);

  /// Writes the next entry and fills in its number and epoch; a PUBLISH without origin is a new
  /// object's. kNotYet if the ring has no room: `acked` is the number up to which all readers have
  /// taken the log.
  [[nodiscard]] Status write(nkv_share_entry* entry, std::uint64_t acked);

  /// Makes what was written visible, with the caller's say about itself. Since the last write there
  /// must have been a fence, and then a confirmation by the membership.
  void publish(std::uint64_t view_revision, std::uint32_t free_extents);

  /// The oldest entry of the ring, as written; nothing once tail and last entry meet.
  [[nodiscard]] std::optional<nkv_share_entry> oldest() const;
  /// The oldest entry is no longer needed, or has been written again.
  void drop_oldest();

  [[nodiscard]] const LogName& name() const { return name_; }
  [[nodiscard]] std::uint64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t published() const { return published_; }
  /// The oldest entries should go: those that are needed never take more than half of the ring.
  [[nodiscard]] bool is_nearly_full() const;
  /// What has been dropped can be overwritten as far as the owner goes; readers may have to take
  /// it.
  [[nodiscard]] bool has_settled() const { return safe_tail_ == tail_; }

 private:
  SharedMemory& memory_;
  Region region_;
  LogName name_;
  std::uint64_t last_ = 0;       ///< Written.
  std::uint64_t published_ = 0;  ///< Head in memory.
  std::uint64_t tail_ = 0;
  std::uint64_t line_tail_ = 0;  ///< Tail in memory.
  std::uint64_t safe_tail_ = 0;  ///< Tail that every successor is sure to see.
  std::uint64_t heartbeat_ = 0;
};

/// A reader's place in another host's log.
class LogReader {
 public:
  explicit LogReader(const LogName& name) : name_(name) {}

  /// Reads the host's line; false if it has not written one yet. A newer one may have been there
  /// before unless the line is fresh: the host can have passed this reader between the copies.
  [[nodiscard]] bool look(SharedMemory& memory, const Region& region);

  /// The next entry up to the head that `look` saw; nothing if there is none or it is not here yet.
  [[nodiscard]] std::optional<nkv_share_entry> next(SharedMemory& memory, const Region& region);

  /// The next entry, published or not: for successors, after the fence and a `look`.
  [[nodiscard]] std::optional<nkv_share_entry> next_written(SharedMemory& memory,
                                                            const Region& region);

  /// True if the owner has overwritten what this reader had not taken: only a host that the owner
  /// does not know of yet can fall behind. Start again with an empty index.
  [[nodiscard]] bool has_fallen_behind() const { return taken_ < line_.tail; }
  /// Goes on after the tail.
  void skip_to_tail() { taken_ = line_.tail; }

  [[nodiscard]] const LogName& name() const { return name_; }
  [[nodiscard]] const nkv_share_host_line& line() const { return line_; }
  [[nodiscard]] bool is_fresh() const { return is_fresh_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// All that was published when `look` was last called has been taken.
  [[nodiscard]] bool has_caught_up() const { return line_.epoch != 0 && taken_ >= line_.head; }

 private:
  LogName name_;
  nkv_share_host_line line_{};
  bool is_fresh_ = false;
  std::uint64_t taken_ = 0;
};

}  // namespace nearkv

// Object records in a pool's memory: the truth from which everything else is rebuilt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "nearkv/status.hpp"
#include "object/object_id.hpp"
#include "object/object_key.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

/// Takes, writes, publishes and clears records. A record is written in two steps with a fence in
/// between, which is the caller's so that many can share it: write() all but the first word, then
/// publish() that word, which also carries the checksum of the rest.
///
/// kPoison: a record's memory is bad. It is not given out again.
///
/// Thread safety: all calls; a record is used by whoever took it.
class RecordTable {
 public:
  explicit RecordTable(PoolMemory* pool);

  [[nodiscard]] std::size_t size() const { return size_; }

  /// A free record; nothing if there is none. Until release_unused(), none is free.
  [[nodiscard]] std::optional<ObjectId> take();

  /// Gives back a record that is free in memory, or poison.
  void release(ObjectId id);

  /// After a scan: all records but `used`, and those that are poison, are free.
  void release_unused(const std::vector<bool>& used);

  /// A copy; kCorrupt if its checksum is wrong, kNotFound if it is free, kPoison.
  Status read(ObjectId id, nkv_object_record* record) const;

  /// Whether the record is that of a key; its checksum is not verified.
  [[nodiscard]] bool holds(ObjectId id, const StoredKey& key, std::uint32_t namespace_number) const;

  /// Asks for the memory that holds() reads.
  void prefetch(ObjectId id) const { __builtin_prefetch(place(id)); }

  /// Writes all but state and checksum.
  Status write(ObjectId id, const nkv_object_record& record);

  /// Starts to write back the records from `begin` to `end`, as they stand.
  Status write_back(ObjectId begin, ObjectId end) const;

  /// Makes what was written findable, or unfindable (FREE), in one store. Durable at the next
  /// fence. kPoison: which of both it is now is not known.
  Status publish(ObjectId id, std::uint32_t state);

 private:
  [[nodiscard]] std::byte* place(ObjectId id) const {
    return first_ + std::size_t{id} * sizeof(nkv_object_record);
  }
  /// guarded(), which remembers a record that is poison.
  template <typename Access>
  Status access(ObjectId id, Access&& access) const;

  Persistence* persistence_;
  std::byte* first_;
  std::size_t size_;
  mutable std::mutex mutex_;
  std::vector<ObjectId> free_;
  mutable std::set<ObjectId> poisoned_;
};

}  // namespace nearkv

// A pool that nobody serves, looked at without changing it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "media/guarded.hpp"
#include "object/extent_allocator.hpp"
#include "object/memory_payload.hpp"
#include "object/namespace_table.hpp"
#include "object/record_table.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

/// A read-only mapping of a pool's file or DAX device. What is read while a daemon serves it may be
/// of different moments. Thread safety: one thread at a time.
class PoolFile {
 public:
  /// kIoError; kBadPool with a reason if it holds no pool of this format.
  static Status open(const std::string& path, std::unique_ptr<PoolFile>* file, std::string* reason);

  /// Whether a store or a device had it open.
  [[nodiscard]] bool is_served() const { return served_; }
  [[nodiscard]] const nkv_pool_header& header() const { return pool_->header(); }
  [[nodiscard]] const NamespaceTable& namespaces() const { return *namespaces_; }
  [[nodiscard]] std::uint32_t slab_use(std::size_t slab) const { return pool_->slabs().use(slab); }

  [[nodiscard]] std::size_t records() const { return records_->size(); }
  /// As RecordTable's: kNotFound for a free one, kCorrupt, kPoison.
  Status read(ObjectId id, nkv_object_record* record) const { return records_->read(id, record); }

  /// Where an object lies. kCorrupt if its record names what cannot be.
  Status extents(const nkv_object_record& record, std::vector<Extent>* extents) const;

  /// Reads all of an object and compares checksums, which of one that is sealed does not prove who
  /// wrote it. kCorrupt or kPoison if it is not what was stored.
  Status verify(const nkv_object_record& record) const;

 private:
  PoolFile() = default;

  SigbusHandler sigbus_;
  std::shared_ptr<PoolMemory> pool_;
  std::unique_ptr<NamespaceTable> namespaces_;
  std::unique_ptr<RecordTable> records_;
  std::unique_ptr<MemoryPayload> payload_;
  bool served_ = false;
};

}  // namespace nearkv

// A pool's memory: its header, its slabs, and how stores to it become durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "persist/persistence.hpp"
#include "pool/pool_plan.hpp"
#include "pool/slab_table.hpp"

namespace nearkv {

/// What sequences and objects of one pool share.
class PoolMemory {
 public:
  /// Memory to hold a pool, and what keeps it mapped.
  struct Source {
    std::span<std::byte> bytes;
    std::shared_ptr<void> owner;
    std::unique_ptr<Persistence> persistence;
    bool is_read_only = false;  ///< Copies that differ are left as they are.
  };

  /// Formats the memory; whatever it held is lost.
  static Status create(Source source, const PoolPlan& plan, std::shared_ptr<PoolMemory>* pool);

  /// Takes up a pool that create() left with this very plan; kBadPool with a reason if there is
  /// none.
  static Status open(Source source, const PoolPlan& plan, std::shared_ptr<PoolMemory>* pool,
                     std::string* reason);

  /// Takes up whatever pool there is; kBadPool with a reason if there is none.
  static Status open(Source source, std::shared_ptr<PoolMemory>* pool, std::string* reason);

  [[nodiscard]] bool is_read_only() const { return source_.is_read_only; }
  [[nodiscard]] std::span<std::byte> bytes() const { return source_.bytes; }
  [[nodiscard]] const nkv_pool_header& header() const { return header_; }
  [[nodiscard]] SlabTable& slabs() { return slabs_; }
  [[nodiscard]] Persistence& persistence() const { return *source_.persistence; }

 private:
  PoolMemory(Source source, const nkv_pool_header& header);

  Source source_;
  nkv_pool_header header_;
  SlabTable slabs_;
};

}  // namespace nearkv

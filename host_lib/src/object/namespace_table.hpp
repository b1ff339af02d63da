// Namespaces in a pool's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "nearkv/object_store.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

/// Numbers namespaces, and keeps the numbers over restarts. Thread safety: all calls.
class NamespaceTable {
 public:
  /// Takes up the whole records in `pool`.
  explicit NamespaceTable(PoolMemory* pool);

  /// ObjectStore::open_namespace.
  Status open(const Namespace& name, std::uint32_t* number);

  /// Whose a namespace is; nothing if there is no such number.
  [[nodiscard]] std::optional<std::uint16_t> tenant(std::uint32_t number) const;

  /// What the record says of it to people; empty if there is no such number.
  [[nodiscard]] std::string text(std::uint32_t number) const;

  [[nodiscard]] std::size_t size() const;

 private:
  using Digest = std::array<std::uint8_t, 32>;

  [[nodiscard]] std::byte* place(std::uint32_t number) const;

  PoolMemory* pool_;
  mutable std::mutex mutex_;
  std::map<Digest, std::uint32_t> numbers_;
  std::map<std::uint32_t, std::uint16_t> tenants_;
};

}  // namespace nearkv

// Namespaces in a pool's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "nearkv/object_store.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

using NamespaceDigest = decltype(NamespaceInfo::digest);

/// Numbers namespaces, and keeps the numbers over restarts. Thread safety: all calls.
class NamespaceTable {
 public:
  /// Takes up the whole records in `pool`.
  explicit NamespaceTable(PoolMemory* pool);

  /// What a namespace's record will say; without a number, which only a table gives.
  [[nodiscard]] static NamespaceInfo describe(const Namespace& name);

  /// ObjectStore::open_namespace.
  Status open(const Namespace& name, std::uint32_t* number);

  /// ObjectStore::adopt_namespace.
  Status adopt(const NamespaceInfo& info, std::uint32_t* number);

  /// Whose a namespace is; nothing if there is no such number.
  [[nodiscard]] std::optional<std::uint16_t> tenant(std::uint32_t number) const;

  /// NamespaceInfo::digest; nothing if there is no such number.
  [[nodiscard]] std::optional<NamespaceDigest> digest(std::uint32_t number) const;

  /// All of them, in the order of their numbers.
  [[nodiscard]] std::vector<NamespaceInfo> list() const;

  [[nodiscard]] std::size_t size() const;

 private:
  struct Known {
    std::uint16_t tenant = 0;
    NamespaceDigest digest{};
  };

  static constexpr std::uint32_t kCopies = 2;  // Each would take all its objects along.

  [[nodiscard]] std::byte* place(std::uint32_t number, std::uint32_t copy) const;
  /// Reads either copy of a record; false if neither is whole.
  bool read(std::uint32_t number, nkv_namespace_record* record) const;
  /// The same at the start: what it gives is durable, in both copies, when it returns.
  bool take_up(std::uint32_t number, nkv_namespace_record* record);
  void write(std::uint32_t number, const nkv_namespace_record& record);

  PoolMemory* pool_;
  mutable std::mutex mutex_;
  std::map<NamespaceDigest, std::uint32_t> numbers_;
  std::map<std::uint32_t, Known> known_;
};

}  // namespace nearkv

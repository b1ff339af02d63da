// Namespaces in a pool's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "nearkv/object_store.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

using NamespaceDigest = decltype(NamespaceInfo::digest);

/// Numbers namespaces, and keeps the numbers over restarts. A namespace that nobody has open and
/// that no object names makes room where there is none for another. Its number is not given again
/// until its record was used 65,536 times, so that a program which still has it finds nothing.
/// Thread safety: all calls.
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

  /// ObjectStore::close_namespace.
  Status close(std::uint32_t number);

  /// ObjectStore::limit_namespaces.
  void limit(std::uint16_t tenant, std::uint32_t most);

  /// Counts a record that names the namespace, until drop(), and tells whose it is; nothing if
  /// there is no such number.
  [[nodiscard]] std::optional<std::uint16_t> hold(std::uint32_t number);
  void drop(std::uint32_t number);

  /// Whose a namespace is; nothing if there is no such number.
  [[nodiscard]] std::optional<std::uint16_t> tenant(std::uint32_t number) const;

  /// NamespaceInfo::digest; nothing if there is no such number.
  [[nodiscard]] std::optional<NamespaceDigest> digest(std::uint32_t number) const;

  /// All of them, in the order of their numbers.
  [[nodiscard]] std::vector<NamespaceInfo> list() const;

  [[nodiscard]] std::size_t size() const;

 private:
  /// A namespace, and where its records stand: the first, then those that its name goes on in.
  struct Known {
    NamespaceInfo info;
    std::vector<std::uint32_t> places;
  };

  static constexpr std::uint32_t kCopies = 2;  // Each would take all its objects along.

  [[nodiscard]] std::byte* at(std::uint32_t place, std::uint32_t copy) const;
  /// Reads either copy of a record; false if neither is whole.
  bool read(std::uint32_t place, nkv_namespace_record* record) const;
  /// The same at the start: what it gives is durable, in both copies, when it returns.
  bool take_up(std::uint32_t place, nkv_namespace_record* record);
  void write(std::uint32_t place, const nkv_namespace_record& record);
  /// A number that no namespace had, as long as there are any; nothing if there is no such round.
  [[nodiscard]] std::optional<std::uint32_t> number_of(std::uint32_t place,
                                                       std::uint32_t round) const;
  /// The round that a place is used in next.
  [[nodiscard]] std::uint16_t next_round(std::uint32_t place) const;
  /// adopt(), with at most so many of the tenant's.
  Status take(const NamespaceInfo& info, std::uint32_t most, std::uint32_t* number);
  /// Frees the records of one namespace that is unused, of a tenant if one is given.
  bool release_unused(std::optional<std::uint16_t> tenant);

  PoolMemory* pool_;
  mutable std::mutex mutex_;
  std::map<NamespaceDigest, std::uint32_t> numbers_;
  std::map<std::uint32_t, Known> known_;
  std::set<std::uint32_t> free_;                      ///< Places.
  std::vector<std::optional<std::uint16_t>> rounds_;  ///< Of each place that was used.
  std::map<std::uint16_t, std::uint32_t> most_;       ///< Of tenants with a limit.
};

}  // namespace nearkv

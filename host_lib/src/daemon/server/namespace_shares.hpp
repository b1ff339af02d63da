// How many namespaces each tenant may have.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// Namespaces are never given back, so a tenant that could make them at will would leave none for
/// the others. Those that are there can always be opened. Thread safety: all calls.
class NamespaceShares {
 public:
  /// Counts what the store has. `most` are those of tenants with a limit.
  NamespaceShares(ObjectStore* store, std::map<std::uint16_t, std::uint32_t> most);

  /// ObjectStore::open_namespace; kQuota for a new one beyond the tenant's limit.
  Status open(const Namespace& name, std::uint32_t* number);

  /// ObjectStore::adopt_namespace, for administrators, whom no limit holds.
  Status adopt(const NamespaceInfo& info, std::uint32_t* number);

 private:
  using Digest = std::array<std::uint8_t, 32>;

  ObjectStore* store_;
  std::map<std::uint16_t, std::uint32_t> most_;
  std::mutex mutex_;
  std::map<std::uint16_t, std::set<Digest>> known_;
};

}  // namespace nearkv

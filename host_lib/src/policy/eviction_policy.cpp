#include "policy/eviction_policy.hpp"

#include "policy/policies.hpp"

namespace nearkv {

std::vector<NamedEvictionPolicy> shipped_eviction_policies() {
  return {{"lru", make_lru}, {"chain_lhd", make_chain_lhd}};
}

Status make_eviction_policy(std::string_view name, std::uint64_t capacity_bytes,
                            std::span<const NamedEvictionPolicy> own,
                            std::unique_ptr<EvictionPolicy>* policy, std::string* reason) {
  if (capacity_bytes == 0) {
    *reason = "an eviction policy needs a capacity of at least one byte";
    return Status::kBadArgument;
  }
  std::string known;
  const std::vector<NamedEvictionPolicy> shipped = shipped_eviction_policies();
  for (const auto table : {own, std::span(shipped)}) {
    for (const NamedEvictionPolicy& named : table) {
      known += (known.empty() ? "" : ", ") + named.name;
      if (named.name != name) continue;
      *policy = named.make ? named.make(capacity_bytes) : nullptr;
      if (*policy != nullptr) return Status::kOk;
      *reason = "the factory of eviction policy '" + named.name + "' made none";
      return Status::kBadArgument;
    }
  }
  *reason = "no eviction policy '" + std::string(name) + "'; there are: " + known;
  return Status::kBadArgument;
}

}  // namespace nearkv

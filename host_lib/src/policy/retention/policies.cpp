#include "policy/retention/policies.hpp"

#include <array>

namespace nearkv {

std::span<const NamedRetentionPolicy> shipped_retention_policies() {
  static const std::array policies = {heavy_hitters(), redundancy(), sliding_window()};
  return policies;
}

Status make_retention_policy(std::string_view name, const Parameters& given,
                             std::unique_ptr<RetentionPolicy>* policy, std::string* reason) {
  const auto shipped = shipped_retention_policies();
  const NamedRetentionPolicy* const named = find_named(shipped, name);
  if (named == nullptr) {
    *reason = "no retention policy '" + std::string(name) + "'; there are: " + names_of(shipped);
    return Status::kBadArgument;
  }
  Parameters parameters;
  const Status status = settle(name, named->parameters, given, &parameters, reason);
  if (status == Status::kOk) *policy = named->make(parameters);
  return status;
}

}  // namespace nearkv

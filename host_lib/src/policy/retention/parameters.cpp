#include "policy/retention/parameters.hpp"

#include <sstream>

namespace nearkv {

Status settle(std::string_view owner, std::span<const Parameter> known, const Parameters& given,
              Parameters* parameters, std::string* reason) {
  std::ostringstream why;
  parameters->clear();
  for (const Parameter& one : known) parameters->emplace(one.name, one.value);
  for (const auto& [name, value] : given) {
    const Parameter* const found = find_named(known, name);
    if (found == nullptr) {
      why << owner << " has no parameter '" << name << "', but: " << names_of(known);
    } else if (!(value >= found->least && value <= found->most)) {
      why << owner << ": " << name << " is from " << found->least << " to " << found->most
          << ", not " << value;
    } else {
      (*parameters)[name] = value;
      continue;
    }
    *reason = why.str();
    return Status::kBadArgument;
  }
  return Status::kOk;
}

}  // namespace nearkv

// What can be set of a card's firmware: fields of its features (CXL 3.1, section 8.2.10.6).
#ifndef NEARKV_CARD_FEATURES_HPP_
#define NEARKV_CARD_FEATURES_HPP_

#include <cstdint>
#include <string>
#include <vector>

#include "card/mailbox.hpp"

namespace nearkv {

struct FeatureField {
  std::string name;  ///< "scrub.hours"
  std::string help;
  std::uint64_t value = 0;
};

/// All fields, as the firmware has them now.
[[nodiscard]] Status read_features(CardMailbox* mailbox, std::vector<FeatureField>* fields,
                                   std::string* reason);

/// Sets one of them; the others of its feature stay. kBadArgument: there is no such field, or the
/// value does not fit.
[[nodiscard]] Status set_feature(CardMailbox* mailbox, const std::string& name, std::uint64_t value,
                                 std::string* reason);

}  // namespace nearkv

#endif  // NEARKV_CARD_FEATURES_HPP_

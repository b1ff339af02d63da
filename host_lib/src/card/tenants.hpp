// What users of a card may have of it. Its firmware keeps that, and its driver holds them to it.
#pragma once

#include <string>
#include <vector>

#include "card/mailbox.hpp"

namespace nearkv {

/// Entries of all who have one. kUnsupported: the firmware keeps none.
[[nodiscard]] Status read_tenants(CardMailbox* mailbox, std::vector<nkv_card_tenant>* tenants,
                                  std::string* reason);

/// All of them anew; holds when it returns, for what users do not have already. kBadArgument: more
/// than CARD_TENANTS, an owner twice, or a limit beyond the card's.
[[nodiscard]] Status write_tenants(CardMailbox* mailbox,
                                   const std::vector<nkv_card_tenant>& tenants,
                                   std::string* reason);

/// Whether both are of one user, or both of all others.
[[nodiscard]] bool is_same_owner(const nkv_card_tenant& a, const nkv_card_tenant& b);

}  // namespace nearkv

// The commands of the contract. Each checks its fields, then every address, before it writes.
#ifndef NEARKV_MODEL_COMMANDS_HPP_
#define NEARKV_MODEL_COMMANDS_HPP_

#include "domain.hpp"
#include "nkv_abi.h"
#include "outcome.hpp"

namespace nearkv::model {

Outcome append(const Domain& domain, const nkv_append_command& command);
Outcome read(const Domain& domain, const nkv_read_command& command);
Outcome gather(const Domain& domain, const nkv_gather_command& command);
Outcome topk(const Domain& domain, const nkv_topk_command& command);
Outcome attend(const Domain& domain, const nkv_attend_command& command);
Outcome scrub(const Domain& domain, const nkv_pages_command& command);
Outcome erase(const Domain& domain, const nkv_pages_command& command);
Outcome copy(const Domain& domain, const nkv_pages_command& command);
Outcome transcode(const Domain& domain, const nkv_pages_command& command);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_COMMANDS_HPP_

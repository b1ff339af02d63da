// How a step of a command ended.
#ifndef NEARKV_MODEL_VERDICT_HPP_
#define NEARKV_MODEL_VERDICT_HPP_

#include <cstdint>

#include "nkv_abi.h"

namespace nearkv::model {

/// A status of the contract and what its message refers to.
struct [[nodiscard]] Verdict {
  uint8_t status = NKV_STATUS_OK;
  uint64_t detail = 0;

  [[nodiscard]] bool ok() const { return status == NKV_STATUS_OK; }
};

/// BAD_FIELD at a byte offset of the command.
inline Verdict bad_field(uint64_t offset) { return {NKV_STATUS_BAD_FIELD, offset}; }

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_VERDICT_HPP_

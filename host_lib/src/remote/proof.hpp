// Who knows the secret, shown without sending it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

using Nonce = std::array<std::uint8_t, NKV_REMOTE_NONCE_BYTES>;
using Proof = std::array<std::uint8_t, NKV_REMOTE_PROOF_BYTES>;

/// What both sides of one connection know once its nonces have been exchanged.
struct Proofs {
  Proof client{};   ///< What the client sends,
  Proof server{};   ///< what the server answers,
  Proof session{};  ///< and what every later message carries.

  /// HMAC-SHA256 with the secret as key over a role and both nonces. kInternal.
  static Status make(std::span<const std::byte> secret, const Nonce& client, const Nonce& server,
                     Proofs* proofs);
};

/// kInternal if the system has no random numbers.
Status make_nonce(Nonce* nonce);

/// In a time that tells nothing of where they differ.
[[nodiscard]] bool same_proof(std::span<const std::uint8_t, NKV_REMOTE_PROOF_BYTES> left,
                              std::span<const std::uint8_t, NKV_REMOTE_PROOF_BYTES> right);

}  // namespace nearkv

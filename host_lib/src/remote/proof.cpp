#include "remote/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>

namespace nearkv {
namespace {

bool sign(std::span<const std::byte> secret, std::string_view role, const Nonce& client,
          const Nonce& server, Proof* proof) {
  std::vector<std::uint8_t> text(role.begin(), role.end());
  text.insert(text.end(), client.begin(), client.end());
  text.insert(text.end(), server.begin(), server.end());
  unsigned bytes = 0;
  return ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(),
                text.size(), proof->data(), &bytes) != nullptr &&
         bytes == proof->size();
}

}  // namespace

Status Proofs::make(std::span<const std::byte> secret, const Nonce& client, const Nonce& server,
                    Proofs* proofs) {
  const bool made = sign(secret, "NearKV remote client", client, server, &proofs->client) &&
                    sign(secret, "NearKV remote server", client, server, &proofs->server) &&
                    sign(secret, "NearKV remote session", client, server, &proofs->session);
  return made ? Status::kOk : Status::kInternal;
}

Status make_nonce(Nonce* nonce) {
  return ::RAND_bytes(nonce->data(), static_cast<int>(nonce->size())) == 1 ? Status::kOk
                                                                           : Status::kInternal;
}

bool same_proof(std::span<const std::uint8_t, NKV_REMOTE_PROOF_BYTES> left,
                std::span<const std::uint8_t, NKV_REMOTE_PROOF_BYTES> right) {
  return ::CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace nearkv

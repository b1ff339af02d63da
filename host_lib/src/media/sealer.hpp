// Parts of objects that only their tenant can read: XAES-256-GCM (C2SP), with OpenSSL's AES.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "media/secret_key.hpp"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

struct evp_cipher_ctx_st;

namespace nearkv {

/// 192 bits: random ones never meet (2^80 parts of one key for a chance of 2^-32), so nobody has to
/// count parts over restarts.
using SealNonce = std::array<std::byte, NKV_SEAL_NONCE_BYTES>;
using SealTag = std::array<std::byte, NKV_SEAL_TAG_BYTES>;

/// Seals and opens parts with one key, one at a time. For one thread at a time. OpenSSL's expanded
/// keys live in its heap, which is not locked, and are wiped with the sealer.
class Sealer {
 public:
  enum class Direction : std::uint8_t { kSeal, kOpen };

  /// kBadArgument if the key is empty, kUnsupported if OpenSSL lacks the ciphers.
  static Status create(const SecretKey& key, std::unique_ptr<Sealer>* sealer);

  /// kInternal if the system has no randomness.
  static Status make_nonce(SealNonce* nonce);

  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;
  ~Sealer();

  /// Begins a part; one that was not finished is forgotten. `identity` is authenticated, not
  /// stored: a part stored under another name does not open. kInternal.
  Status begin(Direction direction, const SealNonce& nonce, std::span<const std::byte> identity);

  /// The part's next bytes, sealed or opened; `to` has as much room. What is opened is vouched for
  /// by nobody before matches(). kInternal.
  Status update(std::span<const std::byte> from, std::byte* to);

  /// The tag of what was sealed. kInternal.
  Status finish(SealTag* tag);

  /// Whether what was opened is what was sealed: key, nonce, identity, every byte, and this tag.
  [[nodiscard]] bool matches(const SealTag& tag);

  /// For whoever moves bytes through the sealer.
  [[nodiscard]] std::span<std::byte> staging() { return staging_; }

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;
  using Block = std::array<unsigned char, 16>;

  Sealer() = default;

  Context derive_;  ///< AES-256 with the tenant's key, which gives the key of each part.
  Context part_;
  Block mask_{};  ///< K1 of CMAC (NIST SP 800-38B).
  alignas(64) std::array<std::byte, std::size_t{16} << 10> staging_;  // In a first-level cache.
};

}  // namespace nearkv

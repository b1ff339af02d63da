// Objects that only their tenant can read: AES-256-GCM between host memory and the pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "media/secret_key.hpp"
#include "media/segments.hpp"
#include "nearkv/status.hpp"

struct evp_cipher_ctx_st;

namespace nearkv {

/// What a part of an object is sealed as; opening it takes the same.
struct SealedAs {
  /// Of the object, never used again in its pool: with `part`, the 96 bits of the nonce.
  std::uint64_t generation = 0;
  std::uint32_t part = 0;
  /// Of the record: authenticated, not stored. An object moved under another name does not open.
  std::span<const std::byte> identity;
};

using SealTag = std::array<std::byte, 16>;

/// Seals and opens with one key. For one thread at a time; make one for each worker. OpenSSL's
/// expanded key lives in its heap, which is not locked, and is wiped with the sealer.
///
/// A fault that ends seal() or open() inside guarded() leaves the sealer usable; what open() had
/// written until then is vouched for by nobody, and the caller wipes it.
class Sealer {
 public:
  /// kBadArgument if the key is empty, kUnsupported if OpenSSL lacks the cipher.
  static Status create(const SecretKey& key, std::unique_ptr<Sealer>* sealer);

  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;
  ~Sealer();

  /// Fills `to_pool` with ciphertext of the cursor's next bytes, as copy_in() stores: the caller
  /// calls copy_fence(). `crc` is the CRC32C of the ciphertext, which a scrub without keys can
  /// verify. kBadArgument if the cursor holds less.
  Status seal(const SealedAs& as, SourceCursor* from, std::span<std::byte> to_pool, SealTag* tag,
              std::uint32_t* crc);

  /// Fills the cursor's next bytes with the plaintext of `from_pool`. kCorrupt, and what was
  /// written is zero, if key, nonce, identity, tag or any byte is not what was sealed; kBadArgument
  /// if the cursor has less room.
  Status open(const SealedAs& as, std::span<const std::byte> from_pool, const SealTag& tag,
              TargetCursor* to);

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;
  static constexpr std::size_t kStagingBytes = std::size_t{16} << 10;

  Sealer() = default;

  Context encrypt_;
  Context decrypt_;
  alignas(64) std::array<std::byte, kStagingBytes> staging_;
};

}  // namespace nearkv

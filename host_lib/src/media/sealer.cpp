#include "media/sealer.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>

#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kPrefixBytes = 12;                  // Of the nonce: chooses the part's key.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // OpenSSL counts in int.

const unsigned char* in(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

/// Expects that OpenSSL gives 1.
Status done(int result) { return result == 1 ? Status::kOk : Status::kInternal; }

}  // namespace

void Sealer::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  ::EVP_CIPHER_CTX_free(context);
}

Sealer::~Sealer() = default;

Status Sealer::create(const SecretKey& key, std::unique_ptr<Sealer>* sealer) {
  return at_edge([&] {
    if (key.empty()) return Status::kBadArgument;
    std::unique_ptr<Sealer> created(new Sealer);
    using Cipher = std::unique_ptr<EVP_CIPHER, decltype(&::EVP_CIPHER_free)>;
    const Cipher block(::EVP_CIPHER_fetch(nullptr, "AES-256-ECB", nullptr), &::EVP_CIPHER_free);
    const Cipher part(::EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr), &::EVP_CIPHER_free);
    if (block == nullptr || part == nullptr) return Status::kUnsupported;
    created->derive_.reset(::EVP_CIPHER_CTX_new());
    created->part_.reset(::EVP_CIPHER_CTX_new());
    if (created->derive_ == nullptr || created->part_ == nullptr) return Status::kOutOfMemory;
    Block& mask = created->mask_;
    int written = 0;
    if (::EVP_EncryptInit_ex2(created->derive_.get(), block.get(), in(key.bytes()), nullptr,
                              nullptr) != 1 ||
        ::EVP_CIPHER_CTX_set_padding(created->derive_.get(), 0) != 1 ||
        ::EVP_EncryptUpdate(created->derive_.get(), mask.data(), &written, mask.data(),
                            static_cast<int>(mask.size())) != 1 ||
        ::EVP_CipherInit_ex2(created->part_.get(), part.get(), nullptr, nullptr, 1, nullptr) != 1) {
      return Status::kInternal;
    }
    // Doubled in the field of 2^128, without a branch on what is secret.
    unsigned carry = 0;
    for (std::size_t i = mask.size(); i-- > 0;) {
      const unsigned doubled = unsigned{mask[i]} << 1U | carry;
      mask[i] = static_cast<unsigned char>(doubled);
      carry = doubled >> 8U;
    }
    mask.back() = static_cast<unsigned char>(mask.back() ^ 0x87U * carry);
    *sealer = std::move(created);
    return Status::kOk;
  });
}

Status Sealer::make_nonce(SealNonce* nonce) {
  return done(::RAND_bytes(reinterpret_cast<unsigned char*>(nonce->data()),
                           static_cast<int>(nonce->size())));
}

Status Sealer::begin(Direction direction, const SealNonce& nonce,
                     std::span<const std::byte> identity) {
  // The part's key: CMAC of (1, "X", the nonce's prefix) and of (2, ...), which are one block each.
  std::array<unsigned char, 2 * std::tuple_size_v<Block>> key{};
  for (std::size_t half = 0; half < 2; ++half) {
    unsigned char* const block = key.data() + half * mask_.size();
    block[1] = static_cast<unsigned char>(half + 1);
    block[2] = 'X';
    std::copy_n(in(nonce), kPrefixBytes, block + mask_.size() - kPrefixBytes);
    for (std::size_t i = 0; i < mask_.size(); ++i) block[i] ^= mask_[i];
  }
  int ignored = 0;
  const bool begun =
      ::EVP_EncryptUpdate(derive_.get(), key.data(), &ignored, key.data(),
                          static_cast<int>(key.size())) == 1 &&
      ::EVP_CipherInit_ex2(part_.get(), nullptr, key.data(), in(nonce) + kPrefixBytes,
                           direction == Direction::kSeal ? 1 : 0, nullptr) == 1 &&
      (identity.empty() || ::EVP_CipherUpdate(part_.get(), nullptr, &ignored, in(identity),
                                              static_cast<int>(identity.size())) == 1);
  ::OPENSSL_cleanse(key.data(), key.size());
  return begun ? Status::kOk : Status::kInternal;
}

Status Sealer::update(std::span<const std::byte> from, std::byte* to) {
  while (!from.empty()) {
    const std::span<const std::byte> some = from.first(std::min(from.size(), kMostBytes));
    int written = 0;
    if (::EVP_CipherUpdate(part_.get(), reinterpret_cast<unsigned char*>(to), &written, in(some),
                           static_cast<int>(some.size())) != 1) {
      return Status::kInternal;
    }
    from = from.subspan(some.size());
    to += some.size();
  }
  return Status::kOk;
}

Status Sealer::finish(SealTag* tag) {
  Block nothing;
  int written = 0;
  if (::EVP_CipherFinal_ex(part_.get(), nothing.data(), &written) != 1) return Status::kInternal;
  return done(::EVP_CIPHER_CTX_ctrl(part_.get(), EVP_CTRL_AEAD_GET_TAG,
                                    static_cast<int>(tag->size()), tag->data()));
}

bool Sealer::matches(const SealTag& tag) {
  SealTag expected = tag;
  Block nothing;
  int written = 0;
  return ::EVP_CIPHER_CTX_ctrl(part_.get(), EVP_CTRL_AEAD_SET_TAG,
                               static_cast<int>(expected.size()), expected.data()) == 1 &&
         ::EVP_CipherFinal_ex(part_.get(), nothing.data(), &written) == 1;
}

}  // namespace nearkv

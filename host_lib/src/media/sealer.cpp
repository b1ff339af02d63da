#include "media/sealer.hpp"

#include <openssl/evp.h>

#include "edge.hpp"
#include "media/checked_copy.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kOpenBytes = std::size_t{1} << 20;  // at a time: OpenSSL counts in int

const unsigned char* in(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

/// Little-endian, on any machine.
std::array<unsigned char, kNonceBytes> nonce_of(const SealedAs& as) {
  std::array<unsigned char, kNonceBytes> nonce{};
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[i] = static_cast<unsigned char>(as.generation >> (8 * i));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    nonce[8 + i] = static_cast<unsigned char>(as.part >> (8 * i));
  }
  return nonce;
}

/// Sets the nonce and takes in the identity; the key is the one that the context has.
bool begin(EVP_CIPHER_CTX* context, const SealedAs& as) {
  int ignored = 0;
  return ::EVP_CipherInit_ex2(context, nullptr, nullptr, nonce_of(as).data(), -1, nullptr) == 1 &&
         (as.identity.empty() || ::EVP_CipherUpdate(context, nullptr, &ignored, in(as.identity),
                                                    static_cast<int>(as.identity.size())) == 1);
}

bool update(EVP_CIPHER_CTX* context, std::span<const std::byte> from, std::byte* to) {
  int written = 0;
  return ::EVP_CipherUpdate(context, reinterpret_cast<unsigned char*>(to), &written, in(from),
                            static_cast<int>(from.size())) == 1;
}

bool finish(EVP_CIPHER_CTX* context) {
  unsigned char nothing[16];
  int written = 0;
  return ::EVP_CipherFinal_ex(context, nothing, &written) == 1;
}

}  // namespace

void Sealer::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  ::EVP_CIPHER_CTX_free(context);
}

Sealer::~Sealer() = default;

Status Sealer::create(const SecretKey& key, std::unique_ptr<Sealer>* sealer) {
  return at_edge([&] {
    if (key.empty()) return Status::kBadArgument;
    std::unique_ptr<Sealer> created(new Sealer);
    const std::unique_ptr<EVP_CIPHER, decltype(&::EVP_CIPHER_free)> cipher(
        ::EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr), &::EVP_CIPHER_free);
    if (cipher == nullptr) return Status::kUnsupported;
    for (const bool encrypts : {true, false}) {
      Context& context = encrypts ? created->encrypt_ : created->decrypt_;
      context.reset(::EVP_CIPHER_CTX_new());
      if (context == nullptr) return Status::kOutOfMemory;
      if (::EVP_CipherInit_ex2(context.get(), cipher.get(), in(key.bytes()), nullptr,
                               encrypts ? 1 : 0, nullptr) != 1) {
        return Status::kInternal;
      }
    }
    *sealer = std::move(created);
    return Status::kOk;
  });
}

Status Sealer::seal(const SealedAs& as, SourceCursor* from, std::span<std::byte> to_pool,
                    SealTag* tag, std::uint32_t* crc) {
  if (from->remaining_bytes() < to_pool.size()) return Status::kBadArgument;
  if (!begin(encrypt_.get(), as)) return Status::kInternal;
  std::uint32_t sum = 0;
  while (!to_pool.empty()) {
    // Ciphertext stays in a first-level cache until it is stored past all of them.
    const std::size_t bytes = std::min(to_pool.size(), staging_.size());
    for (std::size_t at = 0; at < bytes;) {
      const std::span<const std::byte> piece = from->next(bytes - at);
      if (!update(encrypt_.get(), piece, staging_.data() + at)) return Status::kInternal;
      at += piece.size();
    }
    sum = copy_in(to_pool, std::span(staging_).first(bytes), sum);
    to_pool = to_pool.subspan(bytes);
  }
  if (!finish(encrypt_.get()) ||
      ::EVP_CIPHER_CTX_ctrl(encrypt_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag->size()),
                            out(*tag)) != 1) {
    return Status::kInternal;
  }
  *crc = sum;
  return Status::kOk;
}

Status Sealer::open(const SealedAs& as, std::span<const std::byte> from_pool, const SealTag& tag,
                    TargetCursor* to) {
  if (to->remaining_bytes() < from_pool.size()) return Status::kBadArgument;
  if (!begin(decrypt_.get(), as)) return Status::kInternal;
  TargetCursor written = *to;
  std::span<const std::byte> rest = from_pool;
  bool genuine = true;
  while (genuine && !rest.empty()) {
    const std::span<std::byte> piece = to->next(std::min(rest.size(), kOpenBytes));
    genuine = update(decrypt_.get(), rest.first(piece.size()), piece.data());
    rest = rest.subspan(piece.size());
  }
  SealTag expected = tag;
  genuine = genuine &&
            ::EVP_CIPHER_CTX_ctrl(decrypt_.get(), EVP_CTRL_AEAD_SET_TAG,
                                  static_cast<int>(expected.size()), out(expected)) == 1 &&
            finish(decrypt_.get());
  if (genuine) return Status::kOk;
  // Nobody reads what nobody vouches for.
  for (std::size_t left = from_pool.size(); left != 0;) {
    const std::span<std::byte> piece = written.next(left);
    std::ranges::fill(piece, std::byte{0});
    left -= piece.size();
  }
  return Status::kCorrupt;
}

}  // namespace nearkv

#include "media/secret_key.hpp"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "edge.hpp"
#include "file_descriptor.hpp"
#include "page_bytes.hpp"

namespace nearkv {
namespace {

constexpr std::string_view kPurpose = "nearkv sealed objects 1";

/// Why the file cannot hold a secret; empty if it can.
std::string objection(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "not a regular file";
  if (info.st_uid != ::geteuid()) return "belongs to another user";
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) return "others may use it; make it mode 0600";
  if (info.st_size != static_cast<off_t>(SecretKey::kBytes)) return "not 32 bytes";
  return {};
}

OSSL_PARAM octets(const char* name, const void* data, std::size_t bytes) {
  // OpenSSL only reads them.
  return ::OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data), bytes);
}

}  // namespace

SecretKey::SecretKey(SecretKey&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

SecretKey& SecretKey::operator=(SecretKey&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

SecretKey::~SecretKey() {
  if (bytes_.empty()) return;
  ::OPENSSL_cleanse(bytes_.data(), bytes_.size());
  ::munmap(bytes_.data(), page_bytes());
}

Status SecretKey::allocate(SecretKey* key) {
  // A page of its own: locks and dump flags are those of pages.
  void* const page =
      ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Status::kOutOfMemory;
  ::mlock(page, page_bytes());
  ::madvise(page, page_bytes(), MADV_DONTDUMP);
  SecretKey allocated;
  allocated.bytes_ = {static_cast<std::byte*>(page), kBytes};
  *key = std::move(allocated);
  return Status::kOk;
}

Status SecretKey::copy_of(std::span<const std::byte, kBytes> bytes, SecretKey* key) {
  const Status status = allocate(key);
  if (status == Status::kOk) std::ranges::copy(bytes, key->bytes_.begin());
  return status;
}

Status SecretKey::load(const std::string& path, SecretKey* key, std::string* reason) {
  return at_edge([&] {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info{};
    if (!file || ::fstat(file.get(), &info) != 0) {
      *reason = path + ": " + std::strerror(errno);
      return Status::kIoError;
    }
    if (const std::string why = objection(info); !why.empty()) {
      *reason = path + ": " + why;
      return Status::kBadArgument;
    }
    SecretKey loaded;
    if (const Status status = allocate(&loaded); status != Status::kOk) return status;
    if (::read(file.get(), loaded.bytes_.data(), kBytes) != static_cast<::ssize_t>(kBytes)) {
      *reason = path + ": cannot be read";
      return Status::kIoError;
    }
    *key = std::move(loaded);
    return Status::kOk;
  });
}

Status SecretKey::derive(const SecretKey& master, std::string_view tenant, SecretKey* key) {
  return at_edge([&] {
    if (master.empty()) return Status::kBadArgument;
    const std::string info = std::string(kPurpose) + '\0' + std::string(tenant);
    const std::unique_ptr<EVP_KDF, decltype(&::EVP_KDF_free)> hkdf(
        ::EVP_KDF_fetch(nullptr, "HKDF", nullptr), &::EVP_KDF_free);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&::EVP_KDF_CTX_free)> context(
        ::EVP_KDF_CTX_new(hkdf.get()), &::EVP_KDF_CTX_free);
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        ::OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        octets(OSSL_KDF_PARAM_KEY, master.bytes_.data(), master.bytes_.size()),
        octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
        ::OSSL_PARAM_construct_end(),
    };
    SecretKey derived;
    if (const Status status = allocate(&derived); status != Status::kOk) return status;
    auto* const bytes = reinterpret_cast<unsigned char*>(derived.bytes_.data());
    if (context == nullptr || ::EVP_KDF_derive(context.get(), bytes, kBytes, parameters) != 1) {
      return Status::kInternal;
    }
    *key = std::move(derived);
    return Status::kOk;
  });
}

}  // namespace nearkv

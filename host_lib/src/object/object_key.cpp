#include "object/object_key.hpp"

#include <openssl/sha.h>

#include <cstring>

namespace nearkv {

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes) {
  std::array<std::uint8_t, 32> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

StoredKey::StoredKey(const ObjectItem& item) : StoredKey(item.key) {
  if (item.key_is_digest) length = 0;
}

StoredKey::StoredKey(const nkv_object_record& record) : length(record.key_bytes) {
  std::memcpy(bytes.data(), record.key, bytes.size());
}

StoredKey::StoredKey(Key key) {
  if (key.size() > bytes.size()) {
    bytes = sha256(key);
    return;
  }
  length = static_cast<std::uint8_t>(key.size());
  if (!key.empty()) std::memcpy(bytes.data(), key.data(), key.size());
}

bool StoredKey::matches(const nkv_object_record& record, std::uint32_t namespace_number) const {
  return record.namespace_number == namespace_number && record.key_bytes == length &&
         std::memcmp(record.key, bytes.data(), bytes.size()) == 0;
}

}  // namespace nearkv

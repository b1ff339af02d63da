#include "signing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

extern "C" {
#include "firmware/boot/image.h"

/// Of signer 0.
const std::uint8_t image_public_key[32] = {
    0xF6, 0x53, 0x33, 0xFA, 0x63, 0x03, 0xB6, 0xA2, 0x3D, 0xEF, 0xD7, 0xDE, 0x2A, 0xF8, 0xAA, 0x46,
    0x1C, 0xB0, 0x47, 0xCC, 0xBF, 0x12, 0xD4, 0xED, 0xD2, 0x9E, 0xF3, 0xB1, 0xEB, 0xA6, 0x70, 0x6B};
}

namespace nearkv::testing {

std::vector<std::uint8_t> sign_image(const std::vector<std::uint8_t>& image,
                                     const std::string& revision, std::uint8_t signer) {
  std::array<std::uint8_t, 32> seed{};
  std::array<std::uint8_t, 32> public_key{};
  std::array<std::uint8_t, 64> secret{};
  std::iota(seed.begin(), seed.end(), signer);
  crypto_eddsa_key_pair(secret.data(), public_key.data(), seed.data());

  nkv_firmware_image header{};
  header.magic = NKV_IMAGE_MAGIC;
  header.bytes = static_cast<std::uint32_t>(image.size());
  revision.copy(reinterpret_cast<char*>(header.revision), sizeof(header.revision));
  crypto_blake2b(header.digest, sizeof(header.digest), image.data(), image.size());
  std::vector<std::uint8_t> file(sizeof(header) + image.size());
  std::ranges::copy(image, file.begin() + sizeof(header));
  std::memcpy(file.data(), &header, sizeof(header));
  crypto_eddsa_sign(header.signature, secret.data(), file.data(), IMAGE_SIGNED_BYTES);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

}  // namespace nearkv::testing

#include "management/flash.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace nearkv::emulator {

std::vector<std::byte> read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> read((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> image(read.size());
  std::memcpy(image.data(), read.data(), read.size());
  return image;
}

std::unique_ptr<Flash> Flash::open(const std::string& path, std::string* reason) {
  auto flash = std::make_unique<Flash>();
  flash->path_ = path;
  if (!std::filesystem::exists(path)) {
    std::ofstream file(path, std::ios::binary);
    std::fill_n(std::ostreambuf_iterator<char>(file), NKV_FLASH_BYTES, static_cast<char>(kErased));
    if (!file.flush()) {
      *reason = path + ": no file for flash memory can be made there";
      return nullptr;
    }
  }
  flash->bytes_ = read_image(path);
  if (flash->bytes_.size() != NKV_FLASH_BYTES) {
    *reason = path + ": flash memory has " + std::to_string(NKV_FLASH_BYTES) + " bytes, not " +
              std::to_string(flash->bytes_.size());
    return nullptr;
  }
  return flash;
}

bool Flash::read(std::uint64_t at, std::span<std::byte, kLineBytes> line) const {
  if (!has_power_ || at % kLineBytes != 0 || at >= bytes_.size()) return false;
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), kLineBytes, line.begin());
  return true;
}

bool Flash::write(std::uint64_t at, std::span<const std::byte, kLineBytes> line) {
  std::array<std::byte, kLineBytes> next{};
  if (!read(at, next)) return false;
  std::ranges::transform(next, line, next.begin(),
                         [](std::byte was, std::byte wanted) { return was & wanted; });
  return change(at, next);
}

bool Flash::erase(std::uint64_t at) {
  if (at % NKV_FLASH_BLOCK_BYTES != 0 || at >= bytes_.size()) return false;
  return change(at, std::vector<std::byte>(NKV_FLASH_BLOCK_BYTES, kErased));
}

bool Flash::change(std::uint64_t at, std::span<const std::byte> bytes) {
  if (!has_power_) return false;
  ++changes_;
  if (changes_left_ && (*changes_left_)-- == 0) {
    has_power_ = false;
    bytes = bytes.first(bytes.size() / 2);
  }
  std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(at));
  if (path_.empty()) return has_power_;
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  for (const std::byte byte : bytes) file.put(static_cast<char>(byte));
  return file.flush().good() && has_power_;
}

void Flash::restore_power() {
  has_power_ = true;
  changes_left_.reset();
}

}  // namespace nearkv::emulator

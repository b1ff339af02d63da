// Flash memory of a card: in memory, or in a file that outlives the process.
#ifndef NEARKV_EMULATOR_MANAGEMENT_FLASH_HPP_
#define NEARKV_EMULATOR_MANAGEMENT_FLASH_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nkv_card.h"

namespace nearkv::emulator {

/// A file's bytes, such as a ROM's; empty if there is none.
std::vector<std::byte> read_image(const std::string& path);

/// NKV_FLASH_BYTES, erased at first. Power may be cut: what is being changed is then torn, and
/// nothing works until it comes back. One thread at a time.
class Flash {
 public:
  static constexpr std::size_t kLineBytes = 64;

  Flash() : bytes_(NKV_FLASH_BYTES, kErased) {}

  /// Of a file, which is made if there is none. None, and why, if it cannot be had.
  static std::unique_ptr<Flash> open(const std::string& path, std::string* reason);

  /// `at` is a line's, or of erase() a block's; false if there is none, or power is cut.
  bool read(std::uint64_t at, std::span<std::byte, kLineBytes> line) const;
  bool write(std::uint64_t at, std::span<const std::byte, kLineBytes> line);
  bool erase(std::uint64_t at);

  /// Cuts the power in the middle of the change (a write, an erase) after so many.
  void cut_power_after(std::uint64_t changes) { changes_left_ = changes; }
  void restore_power();
  [[nodiscard]] bool has_power() const { return has_power_; }
  /// Changes so far.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  static constexpr std::byte kErased{0xFF};

  bool change(std::uint64_t at, std::span<const std::byte> bytes);

  std::vector<std::byte> bytes_;
  std::string path_;  ///< None: in memory.
  std::uint64_t changes_ = 0;
  std::optional<std::uint64_t> changes_left_;
  bool has_power_ = true;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_MANAGEMENT_FLASH_HPP_

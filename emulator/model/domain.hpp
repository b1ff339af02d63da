// What a queue may touch: its window of device memory and its tenant.
#ifndef NEARKV_MODEL_DOMAIN_HPP_
#define NEARKV_MODEL_DOMAIN_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "verdict.hpp"

namespace nearkv::model {

/// A queue's window. Addresses are byte offsets into it.
class Window {
 public:
  explicit Window(std::span<std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool contains(uint64_t address, uint64_t bytes) const {
    return bytes <= bytes_.size() && address <= bytes_.size() - bytes;
  }

  /// ADDRESS_FAULT with the address unless all `bytes` lie inside; an empty range always does.
  [[nodiscard]] Verdict check(uint64_t address, uint64_t bytes) const {
    if (bytes == 0 || contains(address, bytes)) return {};
    return {NKV_STATUS_ADDRESS_FAULT, address};
  }

  /// The bytes of a range that was checked.
  [[nodiscard]] std::span<std::byte> at(uint64_t address, uint64_t bytes) const {
    return bytes == 0 ? std::span<std::byte>() : bytes_.subspan(address, bytes);
  }

  /// Copies `count` values out of a range that was checked.
  template <typename T>
  [[nodiscard]] std::vector<T> load(uint64_t address, uint64_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(count);
    if (count != 0)
      std::memcpy(values.data(), at(address, count * sizeof(T)).data(), count * sizeof(T));
    return values;
  }

  /// Copies values into a range that was checked.
  template <typename T>
  void store(uint64_t address, std::span<const T> values) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!values.empty()) {
      std::memcpy(at(address, values.size_bytes()).data(), values.data(), values.size_bytes());
    }
  }

 private:
  std::span<std::byte> bytes_;
};

struct Domain {
  Window window;
  uint16_t tenant;
  uint8_t page_flags = NKV_PAGE_FLAG_ALL;  ///< Those that the device knows: others are BAD_PAGE.
};

/// Rounds up to whole bursts, where arrays and result parts begin.
constexpr uint64_t burst_aligned(uint64_t bytes) {
  return (bytes + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES * NKV_BURST_BYTES;
}

/// Rounds up to whole grains: what a page takes.
constexpr uint64_t page_aligned(uint64_t bytes) {
  return (bytes + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_DOMAIN_HPP_

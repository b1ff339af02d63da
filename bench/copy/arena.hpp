// Large, touched memory in which objects are visited in random order, so that no cache holds them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace nearkv::bench {

class Arena {
 public:
  /// Throws std::bad_alloc. The contents follow from `seed`.
  Arena(std::size_t bytes, std::uint64_t seed) : bytes_(bytes) {
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    ::madvise(address, bytes, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(address);
    std::mt19937_64 random(seed);
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
      *reinterpret_cast<std::uint64_t*>(data_ + at) = random();
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { ::munmap(data_, bytes_); }

  [[nodiscard]] std::span<std::byte> span() { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

/// 0 to count - 1 in random order, the same for the same seed.
inline std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

}  // namespace nearkv::bench

// Places for page lists in device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

/// Blocks of a power-of-two size from one region, each reused for its own size only. Lists double
/// as they grow, so that every size is in demand sooner or later.
class ListAllocator {
 public:
  ListAllocator(std::uint64_t begin, std::uint64_t bytes) : next_(begin), end_(begin + bytes) {}

  /// Address of a block of at least `bytes`; rounds `bytes` up to what it holds. False if there is
  /// no room.
  [[nodiscard]] bool allocate(std::uint64_t* bytes, std::uint64_t* address);

  /// Gives back what allocate returned, with the size that it returned.
  void release(std::uint64_t address, std::uint64_t bytes);

 private:
  std::uint64_t next_;
  std::uint64_t end_;
  std::array<std::vector<std::uint64_t>, 64> free_;  ///< By binary logarithm of the size.
};

}  // namespace nearkv

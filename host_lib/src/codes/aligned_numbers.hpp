// Buffers of the inner loops by codes.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>

namespace nearkv {

/// Numbers that are aligned for vectors, kept between commands.
template <typename T>
class AlignedNumbers {
 public:
  /// Makes room for `count`; what was there is lost.
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    numbers_ = hwy::AllocateAligned<T>(count);
    capacity_ = count;
  }
  [[nodiscard]] T* data() const { return numbers_.get(); }

 private:
  hwy::AlignedFreeUniquePtr<T[]> numbers_;
  std::size_t capacity_ = 0;
};

}  // namespace nearkv

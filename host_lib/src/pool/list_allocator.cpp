#include "pool/list_allocator.hpp"

#include <algorithm>
#include <bit>

namespace nearkv {
namespace {

constexpr std::uint64_t kLeastBytes = 256;

}  // namespace

bool ListAllocator::allocate(std::uint64_t* bytes, std::uint64_t* address) {
  *bytes = std::bit_ceil(std::max(*bytes, kLeastBytes));
  std::vector<std::uint64_t>& free = free_[static_cast<std::size_t>(std::countr_zero(*bytes))];
  if (!free.empty()) {
    *address = free.back();
    free.pop_back();
    return true;
  }
  if (*bytes > end_ - next_) return false;
  *address = next_;
  next_ += *bytes;
  return true;
}

void ListAllocator::release(std::uint64_t address, std::uint64_t bytes) {
  free_[static_cast<std::size_t>(std::countr_zero(bytes))].push_back(address);
}

}  // namespace nearkv

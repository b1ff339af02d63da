#include "support/counted_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace nearkv::test {
namespace {

std::atomic<std::size_t> counted{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++counted;
  bytes += (alignment - bytes % alignment) % alignment;
  if (void* const memory = std::aligned_alloc(alignment, bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

std::size_t allocations() { return counted; }

}  // namespace nearkv::test

void* operator new(std::size_t bytes) {
  return nearkv::test::allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return nearkv::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// Memory for kernels that this machine's cores run: they have ended when their launch returns.
#include <algorithm>
#include <new>

#include "cuda/gpu.hpp"

namespace nearkv::test {

std::shared_ptr<std::byte> reachable(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{256};
  void* const place = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment);
  return {static_cast<std::byte*>(place),
          [](std::byte* owned) { ::operator delete(owned, kAlignment); }};
}

void synchronize() {}

}  // namespace nearkv::test

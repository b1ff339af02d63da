// GOMP_parallel() is what GCC compiles `#pragma omp parallel` to; libomp and Intel's runtime have
// it too. It is looked up, not linked: the runtime has to be the one that the engine uses.
#include <dlfcn.h>

#include <algorithm>

#include "nearkv/block_attention.hpp"

namespace nearkv {
namespace {

template <typename Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

void run_on_openmp(ThreadTeam::Body body, void* work, unsigned members) {
  static auto* const parallel =
      loaded<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  parallel(body, work, members, 0);
}

}  // namespace

ThreadTeam openmp_team() {
  static auto* const most_threads = loaded<int()>("omp_get_max_threads");
  static const bool has_parallel = loaded<void()>("GOMP_parallel") != nullptr;
  if (most_threads == nullptr || !has_parallel) return {};
  return {static_cast<unsigned>(std::max(most_threads(), 1)), run_on_openmp};
}

}  // namespace nearkv

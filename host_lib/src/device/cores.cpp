#include "device/cores.hpp"

#include <numa.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

namespace nearkv {
namespace {

void add_cores_of(pid_t thread, cpu_set_t* cores) {
  cpu_set_t its;
  CPU_ZERO(&its);
  // A thread that has ended since it was listed adds nothing.
  if (::sched_getaffinity(thread, sizeof(its), &its) == 0) CPU_OR(cores, cores, &its);
}

cpu_set_t cores_of_all_threads() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  add_cores_of(0, &cores);  // The caller's, where there is no /proc.
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/self/task", error);
  for (const std::filesystem::directory_iterator end; !error && task != end;
       task.increment(error)) {
    const std::string name = task->path().filename().string();
    pid_t thread = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (parsed.ec == std::errc()) add_cores_of(thread, &cores);
  }
  return cores;
}

}  // namespace

std::vector<int> process_cores(int node) {
  const cpu_set_t allowed = cores_of_all_threads();
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) all.push_back(core);
  }
  if (all.empty()) return {0};
  if (node < 0 || numa_available() < 0) return all;
  std::vector<int> near;
  std::ranges::copy_if(all, std::back_inserter(near),
                       [node](int core) { return numa_node_of_cpu(core) == node; });
  return near.empty() ? all : near;
}

}  // namespace nearkv

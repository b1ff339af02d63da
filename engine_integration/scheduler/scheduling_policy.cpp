#include "scheduling_policy.hpp"

namespace nearkv::scheduler {

std::optional<RequestId> SchedulingPolicy::makes_room(RequestId /*candidate*/,
                                                      const View& /*view*/) {
  return std::nullopt;
}

std::optional<RequestId> SchedulingPolicy::gives_way(const View& view) {
  std::optional<RequestId> last;
  for (const RequestId id : view.running) {
    if (id == kNoRequest || view[id].phase != Phase::kRunning) continue;
    if (!last || view[id].order > view[*last].order) last = id;
  }
  return last;
}

}  // namespace nearkv::scheduler

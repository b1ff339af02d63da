#include "card/memory_events.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "file_descriptor.hpp"

namespace nearkv {

using namespace std::chrono_literals;

Status MemoryEventWatch::open(const std::string& module, std::string* reason) {
  module_ = module;
  return trace_.open("cxl", memory_event_traces(), reason);
}

Status MemoryEventWatch::poll(std::chrono::milliseconds timeout, std::vector<MemoryEvent>* events,
                              std::string* reason) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<MemoryEvent> found;
  const auto take = [&](tep_event* event, tep_record* record) {
    std::optional<MemoryEvent> decoded = decode_memory_event(event, record);
    if (decoded && decoded->module == module_) found.push_back(*std::move(decoded));
  };
  Status status = trace_.drain(take, reason);
  while (status == Status::kOk && found.empty()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0ms) return Status::kTimeout;
    status = trace_.wait(left, reason);
    if (status == Status::kOk) status = trace_.drain(take, reason);
  }
  std::ranges::stable_sort(found, {}, &MemoryEvent::time_ns);
  std::ranges::move(found, std::back_inserter(*events));
  return status;
}

Status list_poison(const std::string& module, std::vector<MemoryEvent>* poison,
                   std::string* reason) {
  const std::string trigger = "/sys/bus/cxl/devices/" + module + "/trigger_poison_list";
  const FileDescriptor file(::open(trigger.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) {
    *reason = trigger + ": " + std::strerror(errno);
    if (errno == EACCES) *reason += "; are you root?";
    if (errno == ENOENT)
      *reason = module + " keeps no list of poison, or this kernel asks for none";
    return errno == ENOENT ? Status::kUnsupported : Status::kDenied;
  }
  MemoryEventWatch watch;
  Status status = watch.open(module, reason);
  if (status != Status::kOk) return status;
  // The kernel has traced the list when this returns.
  if (::write(file.get(), "1", 1) != 1) {
    *reason = module + " does not tell what is poisoned: " + std::strerror(errno);
    return Status::kIoError;
  }
  std::vector<MemoryEvent> events;
  status = watch.poll(0ms, &events, reason);
  if (status != Status::kOk && status != Status::kTimeout) return status;
  if (watch.has_lost()) {
    *reason = module + " has more poison than a trace holds; `cxl list -L` lists it too";
    return Status::kIoError;
  }
  std::erase_if(events, [](const MemoryEvent& event) {
    return event.kind != MemoryEventKind::kPoison || event.status == Status::kOk;
  });
  // Somebody else may have asked meanwhile.
  std::ranges::stable_sort(events, {}, &MemoryEvent::address);
  const auto same = [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.address == b.address;
  };
  events.erase(std::unique(events.begin(), events.end(), same), events.end());
  std::ranges::move(events, std::back_inserter(*poison));
  return Status::kOk;
}

}  // namespace nearkv

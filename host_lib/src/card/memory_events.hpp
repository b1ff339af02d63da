// Events of a card's module as they come, and the poison that it lists.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "card/memory_event.hpp"
#include "card/trace.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Follows a module's events from open() on. Needs root, or rights to tracefs. Not for several
/// threads.
class MemoryEventWatch {
 public:
  /// `module` as "mem0". As Trace::open().
  Status open(const std::string& module, std::string* reason);

  /// Adds events that came since the last call, oldest first; if there are none, waits for one.
  /// kTimeout: none came in time, or a signal did. kIoError with a reason.
  Status poll(std::chrono::milliseconds timeout, std::vector<MemoryEvent>* events,
              std::string* reason);

  /// More came between two calls than Trace::kBufferBytes for each processor.
  [[nodiscard]] bool has_lost() const { return trace_.has_lost(); }

 private:
  std::string module_;
  Trace trace_;
};

/// The lines that a module knows to be poisoned, by address; it asks the module. kUnsupported: it
/// keeps no such list, or the kernel traces none; kDenied; kIoError, each with a reason.
Status list_poison(const std::string& module, std::vector<MemoryEvent>* poison,
                   std::string* reason);

}  // namespace nearkv

// A trace of the kernel's events that is our own: nobody else reads it, fills it or stops it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"

// Of libtraceevent.
struct kbuffer;     // NOLINT(readability-identifier-naming)
struct tep_event;   // NOLINT(readability-identifier-naming)
struct tep_handle;  // NOLINT(readability-identifier-naming)
struct tep_record;  // NOLINT(readability-identifier-naming)

namespace nearkv {

/// An instance of tracefs, which goes with this object; what a killed process left goes when the
/// next one opens. Not for several threads.
class Trace {
 public:
  static constexpr std::size_t kBufferBytes = 256 << 10;  ///< Of each processor; the oldest goes.

  using Take = std::function<void(tep_event*, tep_record*)>;

  Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  /// Traces these events of a system of the kernel's from now on; one that the kernel lacks does
  /// not come. kUnsupported: it has none of them; kDenied; kIoError, each with a reason.
  Status open(const std::string& system, const std::vector<const char*>& events,
              std::string* reason);

  /// Gives `take` what has come since the last call; of one processor in order. kIoError.
  Status drain(const Take& take, std::string* reason);

  /// Sleeps until something may have come. kTimeout, also after a signal; kIoError.
  Status wait(std::chrono::milliseconds timeout, std::string* reason);

  /// The kernel had no room for some.
  [[nodiscard]] bool has_lost() const { return has_lost_; }

 private:
  struct FreeFormats {
    void operator()(tep_handle* formats) const;
  };
  struct FreeReader {
    void operator()(kbuffer* reader) const;
  };

  Status make_instance(const std::string& root, std::string* reason);
  Status open_buffers(std::string* reason);
  void take_page(const Take& take);

  std::unique_ptr<tep_handle, FreeFormats> formats_;
  std::unique_ptr<kbuffer, FreeReader> reader_;
  std::string folder_;  ///< Of the instance; "" if there is none.
  std::vector<FileDescriptor> buffers_;
  FileDescriptor pipe_;  ///< Never read: tells when there is something in any of them.
  std::vector<char> page_;
  bool has_lost_ = false;
};

}  // namespace nearkv

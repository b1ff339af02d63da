#include "card/trace.hpp"

#include <event-parse.h>
extern "C" {
#include <kbuffer.h>
}
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "page_bytes.hpp"

namespace nearkv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
constexpr std::string_view kPrefix = "nearkv-";

Status fail(const std::string& what, int error, std::string* reason) {
  *reason = what + ": " + std::strerror(error);
  if (error != EACCES && error != EPERM) return Status::kIoError;
  *reason += "; are you root?";
  return Status::kDenied;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

/// "nearkv-PROCESS-NUMBER": a name that no other trace has.
std::string fresh_name() {
  static std::atomic<unsigned> number = 0;
  return std::string(kPrefix) + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

/// Takes away what processes left that were killed.
void remove_abandoned(const std::string& instances) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(instances, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const auto process =
        static_cast<pid_t>(std::strtol(name.c_str() + kPrefix.size(), nullptr, 10));
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

void Trace::FreeFormats::operator()(tep_handle* formats) const { ::tep_free(formats); }

void Trace::FreeReader::operator()(kbuffer* reader) const { ::kbuffer_free(reader); }

Trace::~Trace() {
  // An instance goes when nobody has a file of it open.
  pipe_ = {};
  buffers_.clear();
  if (!folder_.empty()) ::rmdir(folder_.c_str());
}

Status Trace::open(const std::string& system, const std::vector<const char*>& events,
                   std::string* reason) {
  const auto* const root =
      std::ranges::find_if(kRoots, [](const char* path) { return ::access(path, F_OK) == 0; });
  if (root == std::end(kRoots)) {
    *reason = "there is no tracefs; `mount -t tracefs tracefs /sys/kernel/tracing` mounts it";
    return Status::kUnsupported;
  }
  if (::access(*root, R_OK | W_OK | X_OK) != 0) return fail(*root, errno, reason);
  ::tep_set_loglevel(TEP_LOG_NONE);
  formats_.reset(::tep_alloc());
  reader_.reset(::kbuffer_alloc(KBUFFER_LSIZE_SAME_AS_HOST, KBUFFER_ENDIAN_SAME_AS_HOST));
  if (formats_ == nullptr || reader_ == nullptr) return fail("a trace", ENOMEM, reason);
  bool has_any = false;
  for (const char* const event : events) {
    const std::string format =
        read_text(std::string(*root) + "/events/" + system + "/" + event + "/format");
    if (format.empty()) continue;
    has_any = ::tep_parse_event(formats_.get(), format.data(), format.size(), system.c_str()) ==
                  TEP_ERRNO__SUCCESS ||
              has_any;
  }
  if (!has_any) {
    *reason = std::string(*root) + " has no events of " + system + "; are its drivers loaded?";
    return Status::kUnsupported;
  }
  const Status status = make_instance(*root, reason);
  if (status != Status::kOk) return status;
  for (const char* const event : events) {
    (void)write_text(folder_ + "/events/" + system + "/" + event + "/enable", "1");
  }
  return Status::kOk;
}

Status Trace::make_instance(const std::string& root, std::string* reason) {
  const std::string instances = root + "/instances";
  remove_abandoned(instances);
  const std::string folder = instances + "/" + fresh_name();
  if (::mkdir(folder.c_str(), 0700) != 0) return fail(folder, errno, reason);
  folder_ = folder;
  if (!write_text(folder_ + "/buffer_size_kb", std::to_string(kBufferBytes >> 10))) {
    return fail(folder_ + "/buffer_size_kb", EIO, reason);
  }
  return open_buffers(reason);
}

Status Trace::open_buffers(std::string* reason) {
  page_.resize(page_bytes());
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ + "/per_cpu", error)) {
    const std::string path = entry.path() / "trace_pipe_raw";
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file) return fail(path, errno, reason);
    buffers_.push_back(std::move(file));
  }
  const std::string pipe = folder_ + "/trace_pipe";
  pipe_ = FileDescriptor(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  return pipe_ ? Status::kOk : fail(pipe, errno, reason);
}

void Trace::take_page(const Take& take) {
  kbuffer* const reader = reader_.get();
  if (::kbuffer_load_subbuffer(reader, page_.data()) != 0) return;
  has_lost_ = has_lost_ || ::kbuffer_missed_events(reader) != 0;
  unsigned long long time = 0;
  for (void* data = ::kbuffer_read_event(reader, &time); data != nullptr;
       data = ::kbuffer_next_event(reader, &time)) {
    tep_record record{};
    record.ts = time;
    record.data = data;
    record.size = ::kbuffer_event_size(reader);
    tep_event* const event = ::tep_find_event_by_record(formats_.get(), &record);
    if (event != nullptr) take(event, &record);
  }
}

Status Trace::drain(const Take& take, std::string* reason) {
  for (const FileDescriptor& buffer : buffers_) {
    // What comes while this reads waits for the next call, so that it ends.
    for (std::size_t left = kBufferBytes; left >= page_.size(); left -= page_.size()) {
      const ssize_t got = ::read(buffer.get(), page_.data(), page_.size());
      if (got == 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) break;
      if (got < 0) return fail("reading a trace", errno, reason);
      take_page(take);
    }
  }
  return Status::kOk;
}

Status Trace::wait(std::chrono::milliseconds timeout, std::string* reason) {
  pollfd pipe{.fd = pipe_.get(), .events = POLLIN, .revents = 0};
  const auto patience = std::clamp<std::int64_t>(timeout.count(), 0, INT_MAX);
  const int ready = ::poll(&pipe, 1, static_cast<int>(patience));
  if (ready > 0) return Status::kOk;
  return ready == 0 || errno == EINTR ? Status::kTimeout : fail("a trace", errno, reason);
}

}  // namespace nearkv

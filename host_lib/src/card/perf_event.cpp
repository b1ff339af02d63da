#include "card/perf_event.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace nearkv {
namespace {

constexpr const char* kPmus = "/sys/bus/event_source/devices/";

Status fail(const std::string& pmu, int error, std::string* reason) {
  *reason = pmu + ": ";
  switch (error) {
    case ENODEV:
    case ENOENT:
      *reason += "perf sees no such card; `nearkv card list` shows cards";
      return Status::kNoDevice;
    case EACCES:
    case EPERM:
      *reason += "needs CAP_PERFMON; are you root?";
      return Status::kDenied;
    case EOPNOTSUPP:
      *reason += "the card's engine does not count this";
      return Status::kUnsupported;
    case EINVAL:
      *reason += "the card cannot do this";
      return Status::kBadArgument;
    case EBUSY:
      *reason += "somebody else is using it";
      return Status::kBusy;
    default:
      *reason += std::strerror(error);
      return Status::kIoError;
  }
}

}  // namespace

std::optional<std::uint64_t> read_pmu_number(const std::string& pmu, const std::string& attribute) {
  std::ifstream file(kPmus + pmu + "/" + attribute);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

Status open_perf_event(const std::string& pmu, const PerfConfig& config, FileDescriptor* event,
                       std::string* reason) {
  const auto type = read_pmu_number(pmu, "type");
  // Of a list like 0-3 the first: one processor has the event, whatever it counts.
  const auto processor = read_pmu_number(pmu, "cpumask");
  if (!type || !processor) return fail(pmu, ENODEV, reason);
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = static_cast<std::uint32_t>(*type);
  attributes.config = config[0];
  attributes.config1 = config[1];
  attributes.config2 = config[2];
  attributes.disabled = 1;
  const long fd = ::syscall(SYS_perf_event_open, &attributes, -1, static_cast<int>(*processor), -1,
                            PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) return fail(pmu, errno, reason);
  *event = FileDescriptor(static_cast<int>(fd));
  return Status::kOk;
}

Status enable_perf_event(const FileDescriptor& event, std::string* reason) {
  if (::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) == 0) return Status::kOk;
  *reason = std::string("perf does not count: ") + std::strerror(errno);
  return Status::kIoError;
}

}  // namespace nearkv

#include "device/linux_device.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "device/memory_uri.hpp"

namespace nearkv {
namespace {

/// What a file of the driver cannot reach.
constexpr std::uint64_t kFeaturesOfTheCard = NKV_FEATURE_INTERRUPTS | NKV_FEATURE_ERROR_LOG |
                                             NKV_FEATURE_INLINE_CONTROL |
                                             NKV_FEATURE_MEMORY_DOORBELLS | NKV_FEATURE_HOTNESS;

constexpr std::uint64_t kAbi = std::uint64_t{NKV_ABI_MAJOR} << NKV_REG_ABI_MAJOR_SHIFT |
                               std::uint64_t{NKV_ABI_MINOR} << NKV_REG_ABI_MINOR_SHIFT;

/// A queue's register by the place that queue 0 has it at.
template <typename Registers>
auto& register_of(Registers& registers, std::uint32_t base_offset) {
  return registers[(base_offset - NKV_REG_SQ_BASE(0)) / 8];
}

/// A register of one of the file's queues, TOTAL registers among them.
std::optional<QueueRegister> file_register(std::uint32_t offset) {
  constexpr std::uint32_t kTotals = NKV_REG_TOTAL_COMMANDS(0) - NKV_REG_SQ_BASE(0);
  auto place = find_queue_register(offset);
  if (!place && offset >= kTotals) {
    place = find_queue_register(offset - kTotals);
    if (place) place->base_offset += kTotals;
  }
  return place && place->index < NKV_CARD_OPEN_QUEUES ? place : std::nullopt;
}

Status fail(const std::string& path, const std::string& why, std::string* reason) {
  *reason = "linux:" + path + ": " + why;
  return errno == ENOMEM || errno == ENOSPC ? Status::kOutOfMemory : Status::kNoDevice;
}

Status open_file(const std::string& path, FileDescriptor* file, std::string* reason) {
  *file = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (*file) return Status::kOk;
  switch (errno) {
    case ENOENT:
      return fail(path, "no such card; is the driver loaded? (`nearkv card list` shows cards)",
                  reason);
    case EACCES:
      return fail(path, "not allowed; users of cards are in the group of the device node", reason);
    default:
      return fail(path, std::strerror(errno), reason);
  }
}

Status take_window(const FileDescriptor& file, const std::string& path, nkv_card_window* window,
                   std::string* reason) {
  if (::ioctl(file.get(), NKV_IOCTL_WINDOW, window) == 0) return Status::kOk;
  switch (errno) {
    case ENXIO:
      return fail(path, "the card has no memory yet; `nearkv card attach` gives it its region",
                  reason);
    case ENOSPC:
      return fail(path, "no room for " + std::to_string(window->bytes) + " bytes; ask for less",
                  reason);
    case EDQUOT:
      return fail(path, "more than this user may have; `nearkv card tenants` tells root how much",
                  reason);
    case EBUSY:
      return fail(path, "another process has the window of this name", reason);
    case EINVAL:
      return fail(path, "memory= is no multiple of 4KiB, or not what the kept window has", reason);
    default:
      return fail(path, std::strerror(errno), reason);
  }
}

/// The window that a URI asks for.
Status parse_options(DeviceUri* uri, nkv_card_window* window, std::string* reason) {
  const std::string size = uri->take("memory", "64MiB");
  if (parse_size(size, &window->bytes) != Status::kOk) {
    return refuse_uri("memory=" + size + " is no size; give one like 64MiB", reason);
  }
  const std::string name = uri->take("name", "");
  if (name.size() >= sizeof(window->name)) {
    return refuse_uri("name= has at most " + std::to_string(sizeof(window->name) - 1) + " bytes",
                      reason);
  }
  std::ranges::copy(name, window->name);
  if (!name.empty()) window->flags = NKV_CARD_WINDOW_FLAG_KEEP;
  return refuse_unknown_options(*uri, "memory, name", reason);
}

}  // namespace

Status LinuxDevice::open(DeviceUri uri, std::unique_ptr<Device>* device, std::string* reason) {
  nkv_card_window window{};
  Status status = parse_options(&uri, &window, reason);
  if (status != Status::kOk) return status;
  const std::string path = uri.path.empty() ? "/dev/nearkv0" : uri.path;
  FileDescriptor file;
  status = open_file(path, &file, reason);
  if (status != Status::kOk) return status;
  nkv_card_info info{};
  if (::ioctl(file.get(), NKV_IOCTL_INFO, &info) != 0) {
    return fail(path, errno == ENOTTY ? "not a NearKV card" : std::strerror(errno), reason);
  }
  status = take_window(file, path, &window, reason);
  if (status != Status::kOk) return status;
  void* const place =
      ::mmap(nullptr, window.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (place == MAP_FAILED) return fail(path, std::strerror(errno), reason);
  device->reset(new LinuxDevice(std::move(file), info,
                                std::span(static_cast<std::byte*>(place), window.bytes),
                                (window.flags & NKV_CARD_WINDOW_FLAG_KEEP) != 0));
  return Status::kOk;
}

LinuxDevice::LinuxDevice(FileDescriptor file, const nkv_card_info& info,
                         std::span<std::byte> memory, bool is_kept)
    : file_(std::move(file)), info_(info), memory_(memory), stand_in_(memory), is_kept_(is_kept) {}

LinuxDevice::~LinuxDevice() {
  for (unsigned i = 0; i < queues_.size(); ++i) stop(i);
  ::munmap(memory_.data(), memory_.size());
}

bool LinuxDevice::is_gone() const { return is_gone_ || stand_in_.is_lost(); }

int LinuxDevice::call(unsigned long request, void* argument) {
  const int result = ::ioctl(file_.get(), request, argument);
  if (result != 0 && errno == ENODEV) is_gone_ = true;
  return result;
}

std::uint64_t LinuxDevice::read_csr(std::uint32_t offset) {
  if (is_gone()) return ~std::uint64_t{0};
  switch (offset) {
    case NKV_REG_ID:
      return NKV_ABI_ID;
    case NKV_REG_ABI:
      return kAbi;
    case NKV_REG_FEATURES:
      return info_.features & ~kFeaturesOfTheCard;
    case NKV_REG_MEMORY_BYTES:
      return memory_.size();
    case NKV_REG_LIMITS:
      return info_.limits;
    case NKV_REG_CODECS:
      return info_.codecs;
    case NKV_REG_TICK_HZ:
      return info_.tick_hz;
    case NKV_REG_DEVICE_STATUS:
      return NKV_REG_DEVICE_STATUS_READY_MASK;
    default:
      break;
  }
  if (!nkv_is_register(offset)) return ~std::uint64_t{0};
  const auto place = file_register(offset);
  if (!place) return 0;
  const std::scoped_lock lock(mutex_);
  return read_queue(*place);
}

std::uint64_t LinuxDevice::read_queue(QueueRegister place) {
  const auto [index, base_offset] = place;
  Queue& queue = queues_.at(index);
  if (base_offset < NKV_REG_TOTAL_COMMANDS(0) && base_offset != NKV_REG_QUEUE_STATUS(0)) {
    return register_of(queue.registers, base_offset);
  }
  if (queue.is_refused && base_offset == NKV_REG_QUEUE_STATUS(0)) {
    return NKV_REG_QUEUE_STATUS_REFUSED_MASK;
  }
  if (queue.is_stuck && base_offset == NKV_REG_QUEUE_STATUS(0)) {
    queue.is_stuck = !was_reset();
    return queue.is_stuck ? NKV_REG_QUEUE_STATUS_RUNNING_MASK : 0;
  }
  nkv_card_queue_state state{};
  state.index = index;
  if (call(NKV_IOCTL_QUEUE_STATE, &state) != 0) {
    // Only of a queue that it does not have the driver knows that it does not run.
    const bool is_known = errno == EINVAL || base_offset != NKV_REG_QUEUE_STATUS(0);
    return is_gone() || !is_known ? ~std::uint64_t{0} : 0;
  }
  switch (base_offset) {
    case NKV_REG_QUEUE_STATUS(0):
      return state.status;
    case NKV_REG_TOTAL_COMMANDS(0):
      return state.commands;
    case NKV_REG_TOTAL_STREAM_BURSTS(0):
      return state.stream_bursts;
    case NKV_REG_TOTAL_REFINE_BURSTS(0):
      return state.refine_bursts;
    case NKV_REG_TOTAL_EXACT_BURSTS(0):
      return state.exact_bursts;
    case NKV_REG_TOTAL_VALUE_BURSTS(0):
      return state.value_bursts;
    case NKV_REG_TOTAL_WRITTEN_BURSTS(0):
      return state.written_bursts;
    case NKV_REG_TOTAL_BUSY_TICKS(0):
      return state.busy_ticks;
    default:
      return 0;
  }
}

void LinuxDevice::write_csr(std::uint32_t offset, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  if (offset == NKV_REG_CONTROL && (value & NKV_REG_CONTROL_RESET_MASK) != 0) {
    for (unsigned i = 0; i < queues_.size(); ++i) stop(i);
    return;
  }
  const auto place = file_register(offset);
  if (!place || place->base_offset >= NKV_REG_TOTAL_COMMANDS(0) || !nkv_is_register(offset)) return;
  const auto [index, base_offset] = *place;
  Queue& queue = queues_.at(index);
  if (base_offset == NKV_REG_QUEUE_CONTROL(0)) {
    const bool is_enabled = (value & NKV_REG_QUEUE_CONTROL_ENABLE_MASK) != 0;
    const bool was_enabled = register_of(queue.registers, base_offset) != 0;
    if (is_enabled && !was_enabled) start(index);
    if (!is_enabled) stop(index);
    return;
  }
  if (base_offset == NKV_REG_QUEUE_STATUS(0)) return;
  if (base_offset == NKV_REG_TENANT(0)) value &= NKV_REG_TENANT_NUMBER_MASK;
  register_of(queue.registers, base_offset) = value;
  if (queue.doorbell == nullptr) return;
  // What the doorbell speaks of is in memory before it, also if stores are combined on their way.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (base_offset == NKV_REG_SQ_TAIL(0)) {
    std::atomic_ref(queue.doorbell->sq_tail).store(static_cast<std::uint16_t>(value));
  } else if (base_offset == NKV_REG_CQ_HEAD(0)) {
    std::atomic_ref(queue.doorbell->cq_head).store(static_cast<std::uint16_t>(value));
  }
}

void LinuxDevice::start(unsigned index) {
  Queue& queue = queues_.at(index);
  const auto value = [&queue](std::uint32_t base_offset) {
    return register_of(queue.registers, base_offset);
  };
  const std::uint64_t coalesce = value(NKV_REG_COALESCE(0));
  nkv_card_queue wanted{};
  wanted.index = index;
  // A ring that no 32 bits can count is refused as any other that is too long.
  wanted.ring_entries = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(value(NKV_REG_RING_ENTRIES(0)), UINT32_MAX));
  wanted.sq_base = value(NKV_REG_SQ_BASE(0));
  wanted.cq_base = value(NKV_REG_CQ_BASE(0));
  wanted.window_base = value(NKV_REG_WINDOW_BASE(0));
  wanted.window_bytes = value(NKV_REG_WINDOW_BYTES(0));
  wanted.coalesce_completions = static_cast<std::uint16_t>(
      (coalesce & NKV_REG_COALESCE_COMPLETIONS_MASK) >> NKV_REG_COALESCE_COMPLETIONS_SHIFT);
  wanted.coalesce_ticks = static_cast<std::uint32_t>(
      (coalesce & NKV_REG_COALESCE_WAIT_TICKS_MASK) >> NKV_REG_COALESCE_WAIT_TICKS_SHIFT);
  wanted.tenant = static_cast<std::uint16_t>(value(NKV_REG_TENANT(0)));
  wanted.weight = static_cast<std::uint8_t>(value(NKV_REG_WEIGHT(0)) & NKV_REG_WEIGHT_SHARE_MASK);
  register_of(queue.registers, NKV_REG_QUEUE_CONTROL(0)) = NKV_REG_QUEUE_CONTROL_ENABLE_MASK;
  queue.is_refused = call(NKV_IOCTL_QUEUE_START, &wanted) != 0;
  if (queue.is_refused) return;
  const off_t at = (off_t{NKV_CARD_MAP_DOORBELLS} + index) * NKV_DOORBELL_STRIDE_BYTES;
  void* const page = ::mmap(nullptr, NKV_DOORBELL_STRIDE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                            file_.get(), at);
  if (page == MAP_FAILED) {
    stop(index);
    queue.is_refused = true;
    return;
  }
  queue.doorbell = static_cast<nkv_doorbell_line*>(page);
  queue.stand_in.emplace(std::span(static_cast<std::byte*>(page), NKV_DOORBELL_STRIDE_BYTES));
  const auto tail = static_cast<std::uint16_t>(value(NKV_REG_SQ_TAIL(0)));
  if (tail != 0) std::atomic_ref(queue.doorbell->sq_tail).store(tail);
}

void LinuxDevice::stop(unsigned index) {
  Queue& queue = queues_.at(index);
  std::uint64_t& control = register_of(queue.registers, NKV_REG_QUEUE_CONTROL(0));
  if (control == 0) return;
  control = 0;
  queue.is_refused = false;
  if (queue.doorbell != nullptr) ::munmap(queue.doorbell, NKV_DOORBELL_STRIDE_BYTES);
  queue.doorbell = nullptr;
  queue.stand_in.reset();
  nkv_card_queue_index which{.index = index, .reserved = 0};
  // One that does not stop is the driver's to deal with; whoever starts it anew is to know.
  queue.is_stuck = call(NKV_IOCTL_QUEUE_STOP, &which) != 0 && errno == ETIMEDOUT;
}

bool LinuxDevice::was_reset() {
  nkv_card_wait now{};
  return call(NKV_IOCTL_WAIT, &now) != 0 && errno == ECANCELED;
}

Status LinuxDevice::wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) {
  nkv_card_wait wait{};
  wait.epoch = *epoch;
  wait.timeout_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
  if (call(NKV_IOCTL_WAIT, &wait) == 0) {
    *epoch = wait.epoch;
    return Status::kOk;
  }
  switch (errno) {
    case EINTR:
      return Status::kOk;  // An early waking, as by a signal.
    case ETIMEDOUT:
      return Status::kTimeout;
    case ECANCELED:
      return Status::kAborted;
    default:
      return Status::kNoDevice;
  }
}

}  // namespace nearkv

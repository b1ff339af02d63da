#include "device/cpu_device.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "device/memory_uri.hpp"
#include "device/pause.hpp"
#include "device/queue_register.hpp"
#include "nearkv/codec.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kTicksPerSecond = 1'000'000'000;
constexpr std::uint64_t kFeatures = NKV_FEATURE_INDEXER | NKV_FEATURE_TRANSCODE |
                                    NKV_FEATURE_TICKS | NKV_FEATURE_MEMORY_DOORBELLS |
                                    NKV_FEATURE_CODE_PAGES | NKV_FEATURE_CODES;

constexpr std::uint64_t kMaxTokensLog2 = std::bit_width(std::uint32_t{NKV_MAX_TOKENS}) - 1;

std::uint64_t limits() {
  return (std::uint64_t{NKV_MAX_QUEUES} << NKV_REG_LIMITS_QUEUES_SHIFT) |
         (std::uint64_t{NKV_MAX_GROUP} << NKV_REG_LIMITS_GROUP_SHIFT) |
         (std::uint64_t{NKV_MAX_HEAD_DIM} << NKV_REG_LIMITS_HEAD_DIM_SHIFT) |
         (std::uint64_t{NKV_MAX_TOP_K} << NKV_REG_LIMITS_TOP_K_SHIFT) |
         (kMaxTokensLog2 << NKV_REG_LIMITS_TOKENS_LOG2_SHIFT);
}

/// All of them, both ways.
constexpr std::uint64_t kCodecs =
    kCodecNumbers * (1ULL << NKV_REG_CODECS_BUILT_SHIFT | 1ULL << NKV_REG_CODECS_READ_SHIFT);

std::uint64_t ticks() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

std::uint16_t read_doorbell(std::byte* place) {
  return std::atomic_ref(*reinterpret_cast<std::uint16_t*>(place)).load(std::memory_order_acquire);
}

Status take_threads(DeviceUri* uri, Workers::Options* workers, std::string* reason) {
  const std::string threads = uri->take("threads", "0");
  std::uint64_t number = 0;
  if (parse_number(threads, &number) != Status::kOk || number > 1024) {
    return refuse_uri("threads=" + threads + " is not a number of threads", reason);
  }
  workers->threads = static_cast<unsigned>(number);
  return Status::kOk;
}

Status take_check_age(DeviceUri* uri, std::chrono::nanoseconds* most_age, std::string* reason) {
  constexpr std::uint64_t kMostSeconds = 30ULL * 24 * 3600;
  const std::string verify = uri->take("verify", "60");
  std::uint64_t seconds = 0;
  if (verify != "always" &&
      (parse_number(verify, &seconds) != Status::kOk || seconds == 0 || seconds > kMostSeconds)) {
    return refuse_uri("verify=" + verify + " is neither always nor a number of seconds, at most " +
                          std::to_string(kMostSeconds),
                      reason);
  }
  *most_age = std::chrono::seconds(seconds);
  return Status::kOk;
}

/// What a URI's options say.
struct Options {
  Memory::Options memory;
  Workers::Options workers;
  std::chrono::nanoseconds most_check_age{0};
};

/// Takes all options, which must be among those `known`.
Status take_options(DeviceUri* uri, std::string_view known, Options* options, std::string* reason) {
  Status status = take_memory_options(uri, &options->memory, reason);
  if (status == Status::kOk) status = take_threads(uri, &options->workers, reason);
  if (status == Status::kOk) status = take_check_age(uri, &options->most_check_age, reason);
  options->workers.node = options->memory.node;
  return status == Status::kOk ? refuse_unknown_options(*uri, known, reason) : status;
}

Status start_device(CpuDevice::Backing backing, const Workers::Options& workers,
                    std::unique_ptr<Device>* device, std::string* reason) {
  try {
    *device = std::make_unique<CpuDevice>(std::move(backing), workers);
    return Status::kOk;
  } catch (const std::bad_alloc&) {
    *reason = "cpu: device: no memory for its tables beside that of its pages; ask for less of it";
    return Status::kOutOfMemory;
  } catch (const std::system_error& error) {
    *reason = std::string("cpu: device: the system refused a thread (") + error.what() +
              "); ask for fewer with threads=N";
    return Status::kOutOfMemory;
  }
}

}  // namespace

Status CpuDevice::open(DeviceUri uri, std::unique_ptr<Device>* device, std::string* reason) {
  Options options;
  Status status = take_options(&uri, "memory, threads, node, huge, verify", &options, reason);
  if (status != Status::kOk) return status;
  auto memory = std::make_shared<Memory>();
  status = Memory::map(options.memory, memory.get(), reason);
  if (status != Status::kOk) return status;
  Backing backing;
  backing.most_check_age = options.most_check_age;
  backing.bytes = memory->bytes();
  backing.durability = memory->durability();
  backing.persistence = Persistence::make(backing.durability);
  backing.owner = std::move(memory);
  return start_device(std::move(backing), options.workers, device, reason);
}

Status CpuDevice::open_in(DeviceUri uri, std::span<std::byte> memory, std::shared_ptr<void> owner,
                          std::unique_ptr<Device>* device, std::string* reason) {
  if (!uri.path.empty()) return refuse_uri("a path names memory, and here is some", reason);
  for (const char* option : {"memory", "huge"}) {
    if (uri.options.contains(option)) {
      return refuse_uri(std::string(option) + "= is for memory that the device maps", reason);
    }
  }
  Options options;
  const Status status = take_options(&uri, "threads, node, verify", &options, reason);
  if (status != Status::kOk) return status;
  Backing backing;
  backing.most_check_age = options.most_check_age;
  backing.bytes = memory;
  backing.persistence = Persistence::make(Durability::kNone);
  backing.owner = std::move(owner);
  return start_device(std::move(backing), options.workers, device, reason);
}

CpuDevice::CpuDevice(Backing backing, const Workers::Options& workers)
    : backing_(std::move(backing)),
      checks_(backing_.bytes, backing_.most_check_age),
      workers_(workers),
      engine_(&workers_) {
  dispatcher_ = std::thread([this] { serve(); });
}

CpuDevice::~CpuDevice() {
  stop_.store(true, std::memory_order_relaxed);
  doorbells_.fetch_add(1, std::memory_order_release);
  doorbells_.notify_one();
  dispatcher_.join();
}

std::vector<int> CpuDevice::cores() const {
  const std::size_t members = workers_.size();
  const std::vector<int>& all = workers_.cores();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(members, all.size()))};
}

std::atomic<std::uint64_t>* CpuDevice::stored_register(std::uint32_t offset) {
  const auto place = find_queue_register(offset);
  if (!place) return nullptr;
  Queue& queue = queues_[place->index];
  switch (place->base_offset) {
    case NKV_REG_SQ_BASE(0):
      return &queue.sq_base;
    case NKV_REG_CQ_BASE(0):
      return &queue.cq_base;
    case NKV_REG_RING_ENTRIES(0):
      return &queue.ring_entries;
    case NKV_REG_QUEUE_CONTROL(0):
      return &queue.control;
    case NKV_REG_SQ_TAIL(0):
      return &queue.sq_tail;
    case NKV_REG_CQ_HEAD(0):
      return &queue.cq_head;
    case NKV_REG_WINDOW_BASE(0):
      return &queue.window_base;
    case NKV_REG_WINDOW_BYTES(0):
      return &queue.window_bytes;
    case NKV_REG_TENANT(0):
      return &queue.tenant;
    case NKV_REG_QUEUE_STATUS(0):
      return &queue.status;
    default:
      return nullptr;
  }
}

std::uint64_t CpuDevice::read_csr(std::uint32_t offset) {
  switch (offset) {
    case NKV_REG_ID:
      return NKV_ABI_ID;
    case NKV_REG_ABI:
      return (std::uint64_t{NKV_ABI_MAJOR} << NKV_REG_ABI_MAJOR_SHIFT) |
             (std::uint64_t{NKV_ABI_MINOR} << NKV_REG_ABI_MINOR_SHIFT);
    case NKV_REG_FEATURES:
      return kFeatures;
    case NKV_REG_MEMORY_BYTES:
      return backing_.bytes.size();
    case NKV_REG_LIMITS:
      return limits();
    case NKV_REG_CODECS:
      return kCodecs;
    case NKV_REG_TICK_HZ:
      return kTicksPerSecond;
    case NKV_REG_TICK_COUNT:
      return ticks();
    case NKV_REG_CONTROL:
      return 0;
    case NKV_REG_DEVICE_STATUS:
      return NKV_REG_DEVICE_STATUS_READY_MASK;
    case NKV_REG_DOORBELL_BASE:
      return doorbell_base_.load(std::memory_order_acquire);
    case NKV_REG_DOORBELL_ENABLE:
      return doorbell_enable_.load(std::memory_order_acquire);
    default:
      break;
  }
  const std::atomic<std::uint64_t>* const value = stored_register(offset);
  if (value != nullptr) return value->load(std::memory_order_acquire);
  // Those of features that this device does not offer read 0.
  return nkv_is_register(offset) ? 0 : ~std::uint64_t{0};
}

void CpuDevice::write_csr(std::uint32_t offset, std::uint64_t value) {
  if (offset == NKV_REG_CONTROL) {
    if ((value & NKV_REG_CONTROL_RESET_MASK) != 0) reset();
    return;
  }
  if (offset == NKV_REG_DOORBELL_BASE) {
    doorbell_base_.store(value, std::memory_order_release);
    return;
  }
  if (offset == NKV_REG_DOORBELL_ENABLE) {
    enable_doorbells(value & NKV_REG_DOORBELL_ENABLE_QUEUES_MASK);
    return;
  }
  std::atomic<std::uint64_t>* const target = stored_register(offset);
  if (target == nullptr) return;
  Queue& queue = queues_[find_queue_register(offset)->index];
  if (target == &queue.status) return;
  target->store(value, std::memory_order_release);
  if (target == &queue.control) {
    set_enabled(&queue, (value & NKV_REG_QUEUE_CONTROL_ENABLE_MASK) != 0);
  }
  if (target == &queue.sq_tail || target == &queue.cq_head || target == &queue.control) {
    doorbells_.fetch_add(1, std::memory_order_release);
    doorbells_.notify_one();
  }
}

void CpuDevice::set_enabled(Queue* queue, bool enabled) {
  const std::scoped_lock lock(execution_);
  if (!enabled) {
    queue->status.store(0, std::memory_order_release);
  } else if ((queue->status.load() & NKV_REG_QUEUE_STATUS_RUNNING_MASK) == 0) {
    start(queue);
  }
}

void CpuDevice::start(Queue* queue) {
  const std::uint64_t entries = queue->ring_entries.load();
  const Window all(backing_.bytes, 0, backing_.persistence.get());
  const bool sized = std::has_single_bit(entries) && entries >= NKV_MIN_RING_ENTRIES &&
                     entries <= NKV_MAX_RING_ENTRIES;
  const std::uint64_t ring_bytes = sized ? entries * NKV_COMMAND_BYTES : 0;
  const std::span<std::byte> submissions = all.at(queue->sq_base.load(), ring_bytes);
  const std::span<std::byte> completions = all.at(queue->cq_base.load(), ring_bytes);
  const std::span<std::byte> window = all.at(queue->window_base.load(), queue->window_bytes.load());
  const bool aligned = queue->sq_base.load() % NKV_BURST_BYTES == 0 &&
                       queue->cq_base.load() % NKV_BURST_BYTES == 0 &&
                       queue->window_base.load() % NKV_PAGE_GRAIN_BYTES == 0;
  if (!aligned || submissions.empty() || completions.empty() || window.empty()) {
    queue->status.store(NKV_REG_QUEUE_STATUS_REFUSED_MASK, std::memory_order_release);
    return;
  }
  queue->submissions = submissions;
  queue->completions = completions;
  queue->window = Window(window, static_cast<std::uint16_t>(queue->tenant.load()),
                         backing_.persistence.get(), &checks_);
  queue->entries = static_cast<std::uint32_t>(entries);
  queue->head = queue->posted = queue->awaited = 0;
  queue->status.store(NKV_REG_QUEUE_STATUS_RUNNING_MASK, std::memory_order_release);
}

void CpuDevice::reset() {
  const std::scoped_lock lock(execution_);
  doorbell_enable_.store(0, std::memory_order_release);
  checks_.forget();
  for (Queue& queue : queues_) {
    queue.control.store(0);
    queue.status.store(0, std::memory_order_release);
  }
}

/// What a line holds when it is enabled was not rung.
void CpuDevice::enable_doorbells(std::uint64_t queues) {
  {
    const std::scoped_lock lock(execution_);
    const std::uint64_t fresh = queues & ~doorbell_enable_.load();
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      if ((fresh >> i & 1U) != 0) queues_[i].heard = doorbell(i);
    }
    doorbell_enable_.store(queues, std::memory_order_release);
  }
  doorbells_.fetch_add(1, std::memory_order_release);
  doorbells_.notify_one();
}

/// Zeros for a line that is not whole in memory.
nkv_doorbell_line CpuDevice::doorbell(std::size_t index) const {
  nkv_doorbell_line line{};
  const std::uint64_t base = doorbell_base_.load(std::memory_order_acquire);
  const std::uint64_t behind = index * std::uint64_t{NKV_DOORBELL_STRIDE_BYTES} + sizeof(line);
  if (base % NKV_BURST_BYTES != 0 || base > backing_.bytes.size() ||
      behind > backing_.bytes.size() - base) {
    return line;
  }
  std::byte* const place = backing_.bytes.data() + base + behind - sizeof(line);
  line.sq_tail = read_doorbell(place + offsetof(nkv_doorbell_line, sq_tail));
  line.cq_head = read_doorbell(place + offsetof(nkv_doorbell_line, cq_head));
  return line;
}

/// Takes what was stored to the doorbells in memory as writes of the registers; whether any was.
bool CpuDevice::hear() {
  if (doorbell_enable_.load(std::memory_order_acquire) == 0) return false;
  const std::scoped_lock lock(execution_);
  const std::uint64_t enabled = doorbell_enable_.load();
  bool has_rung = false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if ((enabled >> i & 1U) == 0) continue;
    Queue& queue = queues_[i];
    const nkv_doorbell_line line = doorbell(i);
    const bool has_head = line.cq_head != queue.heard.cq_head;
    const bool has_tail = line.sq_tail != queue.heard.sq_tail;
    if (has_head) queue.cq_head.store(line.cq_head, std::memory_order_release);
    if (has_tail) queue.sq_tail.store(line.sq_tail, std::memory_order_release);
    queue.heard = line;
    has_rung |= has_head || has_tail;
  }
  return has_rung;
}

/// Returns when a doorbell in memory has rung, for whose sake nobody wakes a thread, or
/// `doorbells_` is no longer `seen`.
void CpuDevice::watch_doorbells(std::uint32_t seen) {
  using std::chrono::microseconds;
  constexpr microseconds kSpin{1000};
  constexpr microseconds kLongestNap{200};
  const auto awake_until = std::chrono::steady_clock::now() + kSpin;
  microseconds nap{50};
  while (!hear() && doorbells_.load(std::memory_order_acquire) == seen) {
    if (std::chrono::steady_clock::now() < awake_until) {
      pause_core();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min(2 * nap, kLongestNap);
    }
  }
}

void CpuDevice::serve() {
  workers_.pin_caller();
  while (true) {
    // Before the question whether to stop: the destructor asks first and rings then.
    const std::uint32_t seen = doorbells_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    bool worked = hear();
    bool awaits = false;
    for (Queue& queue : queues_) {
      const Served served = serve_queue(&queue);
      worked |= served == Served::kOne;
      awaits |= served == Served::kAwaited;
    }
    if (awaits && !worked) std::this_thread::yield();
    if (awaits || worked) continue;
    if (doorbell_enable_.load(std::memory_order_acquire) != 0) {
      watch_doorbells(seen);
    } else {
      await_change(doorbells_, seen);
    }
  }
}

CpuDevice::Served CpuDevice::serve_queue(Queue* queue) {
  if ((queue->status.load(std::memory_order_acquire) & NKV_REG_QUEUE_STATUS_RUNNING_MASK) == 0) {
    return Served::kNone;
  }
  const std::scoped_lock lock(execution_);
  if ((queue->status.load() & NKV_REG_QUEUE_STATUS_RUNNING_MASK) == 0) return Served::kNone;
  const auto tail = static_cast<std::uint16_t>(queue->sq_tail.load(std::memory_order_acquire));
  const auto waiting = static_cast<std::uint16_t>(tail - queue->head);
  const auto unread = static_cast<std::uint16_t>(
      queue->posted - static_cast<std::uint16_t>(queue->cq_head.load(std::memory_order_acquire)));
  // A tail that claims more than the ring holds is a host's mistake: wait for a sane one.
  if (waiting == 0 || waiting > queue->entries || unread >= queue->entries) {
    return Served::kNone;
  }
  if (tail != queue->awaited) {
    queue->awaited = tail;
    queue->awaited_since = std::chrono::steady_clock::now();
  }
  return take_command(queue);
}

/// The doorbell may have overtaken the stores before it: the slot says whether it is written.
CpuDevice::Served CpuDevice::take_command(Queue* queue) {
  constexpr std::chrono::microseconds kPatience{NKV_SLOT_PATIENCE_US};
  std::array<std::byte, NKV_COMMAND_BYTES> command;
  std::byte& flags = command[offsetof(nkv_attend_command, flags)];
  std::byte* const slot =
      queue->submissions.data() + (queue->head % queue->entries) * command.size();
  const std::uint32_t first =
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(slot)).load(std::memory_order_acquire);
  std::memcpy(command.data(), &first, sizeof(first));
  std::memcpy(command.data() + sizeof(first), slot + sizeof(first), command.size() - sizeof(first));
  const bool is_first_phase = (queue->head / queue->entries) % 2 == 0;
  const bool is_written =
      ((flags & std::byte{NKV_SLOT_FLAG_PHASE}) != std::byte{}) == is_first_phase;
  nkv_completion completion{};
  if (is_written) {
    ++queue->head;
    flags &= ~std::byte{NKV_SLOT_FLAG_PHASE};
    checks_.begin_command();
    engine_.execute(command, queue->window, &completion);
  } else if (std::chrono::steady_clock::now() - queue->awaited_since >= kPatience) {
    ++queue->head;
    completion.status = NKV_STATUS_NOT_WRITTEN;
  } else {
    return Served::kAwaited;
  }
  post(queue, completion);
  return Served::kOne;
}

void CpuDevice::post(Queue* queue, nkv_completion completion) {
  completion.sq_head = queue->head;
  completion.phase = (queue->posted / queue->entries) % 2 == 0 ? 1 : 0;
  std::byte* const entry =
      queue->completions.data() + (queue->posted % queue->entries) * sizeof(completion);
  std::uint32_t first_word = 0;
  std::memcpy(&first_word, &completion, sizeof(first_word));
  std::memcpy(entry + sizeof(first_word),
              reinterpret_cast<const std::byte*>(&completion) + sizeof(first_word),
              sizeof(completion) - sizeof(first_word));
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(entry))
      .store(first_word, std::memory_order_release);
  ++queue->posted;
  {
    const std::scoped_lock lock(completed_mutex_);
    ++completion_count_;
  }
  completed_.notify_all();
}

Status CpuDevice::wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(completed_mutex_);
  const bool changed =
      completed_.wait_for(lock, timeout, [&] { return completion_count_ != *epoch; });
  *epoch = completion_count_;
  return changed ? Status::kOk : Status::kTimeout;
}

}  // namespace nearkv

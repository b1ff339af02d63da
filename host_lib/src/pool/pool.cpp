#include "nearkv/pool.hpp"

#include <algorithm>
#include <utility>

#include "edge.hpp"
#include "pool/pool_access.hpp"
#include "pool/pool_impl.hpp"

namespace nearkv {

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() {
  if (impl_->is_here()) return;
  [[maybe_unused]] Impl* const parents = impl_.release();
}

Status PoolAccess::open(std::shared_ptr<Device> device, const Pool::Options& options,
                        const PoolPlan& plan, std::shared_ptr<PoolMemory> memory,
                        std::unique_ptr<Pool>* pool, std::string* reason) {
  auto impl = std::make_unique<Pool::Impl>(std::move(device), options, plan, std::move(memory));
  const Status status = impl->start(reason);
  if (status != Status::kOk) return status;
  impl->recover();
  pool->reset(new Pool(std::move(impl)));
  return Status::kOk;
}

namespace {

/// A device ends the command that it is at, however short a time callers wait for batches.
constexpr std::chrono::milliseconds kLeastStopTimeout{1000};

Status plan_sequences(Device& device, const Pool::Options& options, PoolPlan* plan,
                      std::string* reason) {
  if (options.shape.layers == 0) {
    *reason = "a pool needs layers and KV heads";
    return Status::kBadArgument;
  }
  if (options.codes && !offers_codes(device)) {
    *reason =
        "this device does not work by codes (feature CODES of register FEATURES); leave them out, "
        "and attend by mode DENSE";
    return Status::kUnsupported;
  }
  const std::uint64_t present = device.memory().size();
  if (options.memory_bytes > present) {
    *reason = "the device has " + std::to_string(present >> 20) + " MiB";
    return Status::kBadArgument;
  }
  return PoolPlan::make(options.memory_bytes != 0 ? options.memory_bytes : present, options, plan,
                        reason);
}

/// The pool's memory of a device, which lives as long as the pool in it.
PoolMemory::Source memory_of(const std::shared_ptr<Device>& device, const PoolPlan& plan) {
  return {device->memory().first(plan.header.total_bytes), device,
          Persistence::make(device->durability())};
}

}  // namespace

Status Pool::create(std::shared_ptr<Device> device, const Options& options,
                    std::unique_ptr<Pool>* pool, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string& why = reason != nullptr ? *reason : ignored;
    PoolPlan plan;
    Status status = plan_sequences(*device, options, &plan, &why);
    if (status != Status::kOk) return status;
    std::shared_ptr<PoolMemory> memory;
    status = PoolMemory::create(memory_of(device, plan), plan, &memory);
    if (status != Status::kOk) return status;
    return PoolAccess::open(std::move(device), options, plan, std::move(memory), pool, &why);
  });
}

Status Pool::open(std::shared_ptr<Device> device, const Options& options,
                  std::unique_ptr<Pool>* pool, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string& why = reason != nullptr ? *reason : ignored;
    PoolPlan plan;
    Status status = plan_sequences(*device, options, &plan, &why);
    if (status != Status::kOk) return status;
    std::shared_ptr<PoolMemory> memory;
    status = PoolMemory::open(memory_of(device, plan), plan, &memory, &why);
    if (status != Status::kOk) return status;
    return PoolAccess::open(std::move(device), options, plan, std::move(memory), pool, &why);
  });
}

Pool::Impl::Impl(std::shared_ptr<Device> device, const Options& options, const PoolPlan& plan,
                 std::shared_ptr<PoolMemory> pool)
    : device_(std::move(device)),
      options_(options),
      plan_(plan),
      pool_(std::move(pool)),
      memory_(pool_->bytes()),
      slabs_(memory_, &pool_->slabs(), &pool_->persistence()),
      lists_(plan.header.lists_at, plan.lists_bytes),
      gains_(head_count()),
      table_(memory_, pool_->header(), &pool_->persistence()) {}

Status Pool::Impl::open_queue() {
  Queue::Options options;
  options.ring_entries = NKV_POOL_RING_ENTRIES;
  options.rings_at = plan_.header.rings_at;
  options.window_bytes = memory_.size();
  options.tenant = kTenant;
  options.stop_timeout = std::clamp(options_.timeout, kLeastStopTimeout, options.stop_timeout);
  queue_.reset();
  const Status status = Queue::open(device_.get(), options, &queue_);
  if (status != Status::kOk) return status;
  batch_ = std::make_unique<CommandBatch>(queue_.get(), memory_, plan_.header.staging_at,
                                          plan_.staging_bytes, &stats_);
  return Status::kOk;
}

Status Pool::Impl::start(std::string* reason) {
  const Status status = open_queue();
  if (status == Status::kTimeout) {
    *reason = "the device's queue does not stop: commands of an earlier pool are in flight";
  } else if (status != Status::kOk) {
    *reason = "the device refused its queue";
  }
  return status;
}

std::string place(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head) {
  return "sequence " + std::to_string(sequence) + ", layer " + std::to_string(layer) +
         ", KV head " + std::to_string(kv_head);
}

Status Pool::Impl::fail(Status status, const std::string& what) {
  return fail(status, what, std::string(message(status)));
}

Status Pool::Impl::fail(Status status, const std::string& what, const std::string& to_do) {
  last_error_ = what + ": " + to_do;
  return status;
}

Status Pool::Impl::fail_completion(const nkv_completion& completion, const std::string& what,
                                   std::span<const std::uint32_t> numbers) {
  const auto status = static_cast<Status>(completion.status);
  const bool is_about_page = status == Status::kStalePage || status == Status::kBadPage ||
                             status == Status::kCorrupt || status == Status::kPoison ||
                             status == Status::kColdPage;
  const bool is_numbered = is_about_page && completion.detail < numbers.size();
  const std::string detail =
      std::to_string(is_numbered ? numbers[completion.detail] : completion.detail);
  if (status == Status::kColdPage) {
    return fail(status, what,
                "page " + detail +
                    " is compressed; transcode it to codec NONE first, or let a "
                    "query skip or decode it (ColdPages)");
  }
  return fail(status, what + ", detail " + detail);
}

Status Pool::Impl::run_batch() {
  const Status status = batch_->run(options_.timeout);
  if (status == Status::kOk) return status;
  // What was not waited for still reads the staging area and writes slots. A device that was reset
  // does nothing more, but what it did to the memory only open() can tell.
  unfinished_ = status;
  if (status != Status::kAborted && !device_->is_gone() && open_queue() == Status::kOk) {
    unfinished_ = Status::kOk;
  }
  return fail(status, "running a batch of commands");
}

Status Pool::Impl::can_go_on() {
  if (device_->is_gone()) return Status::kNoDevice;
  if (unfinished_ == Status::kOk) return Status::kOk;
  return fail(unfinished_, "after a batch of commands that did not end",
              std::string(message(unfinished_)) + "; open the pool anew");
}

void Pool::Impl::give_up(std::uint32_t page) {
  if (unfinished_ == Status::kOk) slabs_.release(page);
}

NearStats Pool::Impl::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void Pool::Impl::reset_stats() {
  const std::scoped_lock lock(mutex_);
  stats_ = {};
}

PoolUsage Pool::Impl::usage() const {
  const std::scoped_lock lock(mutex_);
  PoolUsage usage;
  usage.total_bytes = plan_.header.total_bytes;
  usage.page_bytes = slabs_.used_bytes();
  usage.pages = slabs_.used_slots();
  usage.damaged_pages = damaged_pages_;
  usage.oldest_check = device_->oldest_check();
  for (const auto& [id, sequence] : sequences_) usage.sequences += sequence.dropped ? 0 : 1;
  return usage;
}

std::string Pool::Impl::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

const ModelShape& Pool::shape() const { return impl_->shape(); }
bool Pool::has_codes() const { return impl_->has_codes(); }
Status Pool::set_gains(std::uint16_t layer, std::uint16_t kv_head,
                       std::span<const std::int8_t> gains) {
  return impl_->settle([&] { return impl_->set_gains(layer, kv_head, gains); });
}
Status Pool::gains(std::uint16_t layer, std::uint16_t kv_head,
                   std::vector<std::int8_t>* gains) const {
  return impl_->settle([&] { return impl_->gains(layer, kv_head, gains); });
}
Status Pool::create_sequence(std::uint64_t sequence) {
  return impl_->settle([&] { return impl_->create_sequence(sequence); });
}
Status Pool::fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens) {
  return impl_->settle([&] { return impl_->fork(parent, child, tokens); });
}
Status Pool::drop(std::uint64_t sequence) {
  return impl_->settle([&] { return impl_->drop(sequence); });
}
Status Pool::append(std::uint64_t sequence, std::uint16_t layer, const HostRows& keys,
                    const HostRows& values, std::uint32_t tokens) {
  return impl_->settle([&] { return impl_->append(sequence, layer, keys, values, tokens); });
}
Status Pool::tokens(std::uint64_t sequence, std::uint16_t layer, std::uint32_t* tokens) const {
  return impl_->settle([&] { return impl_->tokens(sequence, layer, tokens); });
}
Status Pool::page_list(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                       std::uint64_t* address, std::uint32_t* tokens) const {
  return impl_->settle([&] { return impl_->page_list(sequence, layer, kv_head, address, tokens); });
}
Status Pool::attend(std::span<const AttendRequest> requests, const AttendOptions& options) {
  std::vector<Status> statuses;
  const Status status = impl_->settle([&] { return impl_->attend(requests, options, &statuses); });
  // What a device left that has gone is nobody's answer.
  const bool has_answers = statuses.size() == requests.size() && status != Status::kNoDevice;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].status != nullptr) *requests[i].status = has_answers ? statuses[i] : status;
  }
  return status;
}
Status Pool::top_k(const TopKRequest& request) {
  return impl_->settle([&] { return impl_->top_k(request); });
}
Status Pool::gather(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                    std::span<const std::uint32_t> ids, std::span<std::byte> keys,
                    std::span<std::byte> values) {
  return impl_->settle([&] { return impl_->gather(sequence, layer, kv_head, ids, keys, values); });
}
Status Pool::read(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                  std::uint32_t first, std::uint32_t count, std::span<std::byte> keys,
                  std::span<std::byte> values) {
  return impl_->settle(
      [&] { return impl_->read(sequence, layer, kv_head, first, count, keys, values); });
}
Status Pool::transcode(std::uint64_t sequence, std::uint8_t codec) {
  return impl_->settle([&] { return impl_->transcode(sequence, codec); });
}
Status Pool::transcode(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                       std::span<const std::uint32_t> pages, std::uint8_t codec,
                       std::uint32_t* moved) {
  return impl_->settle(
      [&] { return impl_->transcode(sequence, layer, kv_head, pages, codec, moved); });
}
Status Pool::codecs(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                    std::vector<std::uint8_t>* codecs) const {
  return impl_->settle([&] { return impl_->codecs(sequence, layer, kv_head, codecs); });
}
Status Pool::scrub(std::uint64_t sequence, std::uint64_t* pages) {
  return impl_->settle([&] { return impl_->scrub(sequence, pages); });
}
std::string Pool::last_error() const {
  return impl_->is_here() ? impl_->last_error() : std::string(message(Status::kForked));
}
NearStats Pool::stats() const { return impl_->is_here() ? impl_->stats() : NearStats{}; }
void Pool::reset_stats() {
  if (impl_->is_here()) impl_->reset_stats();
}
PoolUsage Pool::usage() const { return impl_->is_here() ? impl_->usage() : PoolUsage{}; }

}  // namespace nearkv

#include "nearkv/pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "edge.hpp"
#include "page/checksum.hpp"
#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::uint32_t kRingEntries = 64;
constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kListShare = 256;  // One byte in so many holds page lists.
constexpr std::uint64_t kStagingShare = 16;

std::uint64_t align(std::uint64_t bytes) { return round_up(bytes, kAlignment); }

std::uint32_t header_checksum(const nkv_pool_header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(nkv_pool_header, crc)));
}

Status check_shape(const ModelShape& shape, std::string* reason) {
  const auto refuse = [&](const char* why) {
    *reason = why;
    return Status::kBadArgument;
  };
  const bool bf16 = shape.dtype == NKV_DTYPE_BF16;
  if (shape.layers == 0 || shape.kv_heads == 0) return refuse("a pool needs layers and KV heads");
  if (shape.head_dim < 16 || shape.head_dim > NKV_MAX_HEAD_DIM || shape.head_dim % 16 != 0) {
    return refuse("head_dim must be a multiple of 16 from 16 to 576");
  }
  if (shape.dtype > NKV_DTYPE_INT8 || shape.dtype == NKV_DTYPE_FP32) {
    return refuse("keys and values must be bf16, fp16, fp8 or int8");
  }
  if (!bf16 && (shape.k_form == NKV_ROW_FORM_DELTA4 || shape.v_form == NKV_ROW_FORM_DELTA4)) {
    return refuse("row form DELTA4 holds bf16 only; use RAW");
  }
  if (shape.v_form > NKV_ROW_FORM_NONE) return refuse("values are stored as RAW, DELTA4 or NONE");
  if (shape.v_form == NKV_ROW_FORM_NONE
          ? shape.value_dim > shape.head_dim
          : shape.value_dim < 16 || shape.value_dim > NKV_MAX_HEAD_DIM) {
    return refuse("value_dim does not fit the shape");
  }
  if (shape.value_dim % 16 != 0) return refuse("value_dim must be a multiple of 16");
  if (shape.k_form > NKV_ROW_FORM_DELTA4) return refuse("keys are stored as RAW or DELTA4");
  return Status::kOk;
}

/// Whether a header in memory is one that this library and shape can take up.
Status check_header(const nkv_pool_header& found, const nkv_pool_header& wanted,
                    std::string* reason) {
  if (found.magic != NKV_POOL_MAGIC) {
    *reason = "the memory holds no NearKV pool; create one";
  } else if (found.version != NKV_POOL_VERSION) {
    *reason = "the pool was made by version " + std::to_string(found.version) +
              " of this library's format; create it anew";
  } else if (found.crc != header_checksum(found)) {
    *reason = "the pool's header is damaged; create it anew";
  } else if (std::memcmp(&found, &wanted, sizeof(found)) != 0) {
    *reason = "the pool has another shape or size; open it with what it was created with";
  } else {
    return Status::kOk;
  }
  return Status::kBadPool;
}

}  // namespace

std::uint32_t PoolPlan::page_bytes(const ModelShape& shape, bool raw) {
  nkv_page_shape page{};
  page.k_form = raw ? std::uint8_t{NKV_ROW_FORM_RAW} : shape.k_form;
  page.v_form =
      raw && shape.v_form != NKV_ROW_FORM_NONE ? std::uint8_t{NKV_ROW_FORM_RAW} : shape.v_form;
  page.dtype = shape.dtype;
  page.head_dim = shape.head_dim;
  page.value_dim = shape.value_dim;
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&page, &layout);
  return layout.total_bytes;
}

Status PoolPlan::make(std::uint64_t memory_bytes, const Pool::Options& options, PoolPlan* plan,
                      std::string* reason) {
  const ModelShape& shape = options.shape;
  const Status status = check_shape(shape, reason);
  if (status != Status::kOk) return status;
  const std::uint64_t raw_page = page_bytes(shape, true);
  nkv_pool_header& header = plan->header;
  header = {};
  header.magic = NKV_POOL_MAGIC;
  header.version = NKV_POOL_VERSION;
  header.max_sequences = options.max_sequences;
  header.total_bytes = memory_bytes;
  header.slab_bytes = static_cast<std::uint32_t>(std::max<std::uint64_t>(
      memory_bytes >= (1ULL << 28) ? 2 << 20 : 1 << 19, std::bit_ceil(4 * raw_page)));
  plan->lists_bytes = align(std::max<std::uint64_t>(memory_bytes / kListShare, 1 << 16));
  const std::uint64_t least_staging = align(4 * raw_page);
  plan->staging_bytes =
      options.staging_bytes != 0
          ? align(options.staging_bytes)
          : std::clamp<std::uint64_t>(align(memory_bytes / kStagingShare), least_staging, 16 << 20);
  const std::uint64_t slab_records = memory_bytes / header.slab_bytes * sizeof(nkv_slab_record);
  header.sequences_at = kAlignment;
  header.slabs_at = align(header.sequences_at +
                          std::uint64_t{options.max_sequences} * sizeof(nkv_sequence_record));
  header.rings_at = align(header.slabs_at + slab_records);
  header.lists_at = align(header.rings_at + Queue::ring_bytes(kRingEntries));
  header.staging_at = align(header.lists_at + plan->lists_bytes);
  header.data_at = align(header.staging_at + plan->staging_bytes);
  if (options.max_sequences == 0 || plan->staging_bytes < least_staging ||
      header.data_at + header.slab_bytes > memory_bytes) {
    *reason = "a pool of this shape needs at least " +
              std::to_string((header.data_at + header.slab_bytes) >> 20) +
              " MiB and room for one sequence";
    return Status::kPoolFull;
  }
  header.slabs = static_cast<std::uint32_t>((memory_bytes - header.data_at) / header.slab_bytes);
  header.layers = shape.layers;
  header.kv_heads = shape.kv_heads;
  header.head_dim = shape.head_dim;
  header.value_dim = shape.value_dim;
  header.dtype = shape.dtype;
  header.k_form = shape.k_form;
  header.v_form = shape.v_form;
  header.crc = header_checksum(header);
  return Status::kOk;
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

Status Pool::create(std::shared_ptr<Device> device, const Options& options,
                    std::unique_ptr<Pool>* pool, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string& why = reason != nullptr ? *reason : ignored;
    const std::span<std::byte> memory = device->memory();
    PoolPlan plan;
    Status status = PoolPlan::make(memory.size(), options, &plan, &why);
    if (status != Status::kOk) return status;
    // The header last: a half-made pool is none. Slots are retracted as slabs are cut.
    std::ranges::fill(memory.first(sizeof(nkv_pool_header)), std::byte{0});
    std::ranges::fill(
        memory.subspan(plan.header.sequences_at, plan.header.rings_at - plan.header.sequences_at),
        std::byte{0});
    std::memcpy(memory.data(), &plan.header, sizeof(plan.header));
    auto impl = std::make_unique<Impl>(std::move(device), options, plan);
    status = impl->start(&why);
    if (status == Status::kOk) pool->reset(new Pool(std::move(impl)));
    return status;
  });
}

Status Pool::open(std::shared_ptr<Device> device, const Options& options,
                  std::unique_ptr<Pool>* pool, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string& why = reason != nullptr ? *reason : ignored;
    const std::span<std::byte> memory = device->memory();
    PoolPlan plan;
    Status status = PoolPlan::make(memory.size(), options, &plan, &why);
    if (status != Status::kOk) return status;
    nkv_pool_header found{};
    std::memcpy(&found, memory.data(), sizeof(found));
    status = check_header(found, plan.header, &why);
    if (status != Status::kOk) return status;
    auto impl = std::make_unique<Impl>(std::move(device), options, plan);
    status = impl->start(&why);
    if (status != Status::kOk) return status;
    impl->recover();
    pool->reset(new Pool(std::move(impl)));
    return Status::kOk;
  });
}

Pool::Impl::Impl(std::shared_ptr<Device> device, const Options& options, const PoolPlan& plan)
    : device_(std::move(device)),
      options_(options),
      plan_(plan),
      memory_(device_->memory()),
      slabs_(memory_, plan.header),
      lists_(plan.header.lists_at, plan.lists_bytes),
      records_(options.max_sequences) {}

Status Pool::Impl::start(std::string* reason) {
  Queue::Options options;
  options.ring_entries = kRingEntries;
  options.rings_at = plan_.header.rings_at;
  options.window_bytes = memory_.size();
  const Status status = Queue::open(device_.get(), options, &queue_);
  if (status != Status::kOk) {
    *reason = "the device refused its queue";
    return status;
  }
  batch_ = std::make_unique<CommandBatch>(queue_.get(), memory_, plan_.header.staging_at,
                                          plan_.staging_bytes, &stats_);
  return Status::kOk;
}

Status Pool::Impl::fail(Status status, std::string what) {
  last_error_ = std::move(what) + ": " + std::string(message(status));
  return status;
}

Status Pool::Impl::fail_completion(const nkv_completion& completion, const std::string& what) {
  return fail(static_cast<Status>(completion.status),
              what + ", detail " + std::to_string(completion.detail));
}

Status Pool::Impl::run_batch() {
  const Status status = batch_->run(options_.timeout);
  return status == Status::kOk ? status : fail(status, "running a batch of commands");
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
  for (const auto& [id, sequence] : sequences_) usage.sequences += sequence.dropped ? 0 : 1;
  return usage;
}

std::string Pool::Impl::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

const ModelShape& Pool::shape() const { return impl_->shape(); }
Status Pool::create_sequence(std::uint64_t sequence) {
  return at_edge([&] { return impl_->create_sequence(sequence); });
}
Status Pool::fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens) {
  return at_edge([&] { return impl_->fork(parent, child, tokens); });
}
Status Pool::drop(std::uint64_t sequence) {
  return at_edge([&] { return impl_->drop(sequence); });
}
Status Pool::append(std::uint64_t sequence, std::uint16_t layer, const HostRows& keys,
                    const HostRows& values, std::uint32_t tokens) {
  return at_edge([&] { return impl_->append(sequence, layer, keys, values, tokens); });
}
Status Pool::tokens(std::uint64_t sequence, std::uint16_t layer, std::uint32_t* tokens) const {
  return impl_->tokens(sequence, layer, tokens);
}
Status Pool::attend(std::span<const AttendRequest> requests, const AttendOptions& options) {
  return at_edge([&] { return impl_->attend(requests, options); });
}
Status Pool::top_k(const TopKRequest& request) {
  return at_edge([&] { return impl_->top_k(request); });
}
Status Pool::gather(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                    std::span<const std::uint32_t> ids, std::span<std::byte> keys,
                    std::span<std::byte> values) {
  return at_edge([&] { return impl_->gather(sequence, layer, kv_head, ids, keys, values); });
}
Status Pool::read(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                  std::uint32_t first, std::uint32_t count, std::span<std::byte> keys,
                  std::span<std::byte> values) {
  return at_edge([&] { return impl_->read(sequence, layer, kv_head, first, count, keys, values); });
}
Status Pool::transcode(std::uint64_t sequence, std::uint8_t codec) {
  return at_edge([&] { return impl_->transcode(sequence, codec); });
}
Status Pool::scrub(std::uint64_t sequence, std::uint64_t* pages) {
  return at_edge([&] { return impl_->scrub(sequence, pages); });
}
std::string Pool::last_error() const { return impl_->last_error(); }
NearStats Pool::stats() const { return impl_->stats(); }
void Pool::reset_stats() { impl_->reset_stats(); }
PoolUsage Pool::usage() const { return impl_->usage(); }

}  // namespace nearkv

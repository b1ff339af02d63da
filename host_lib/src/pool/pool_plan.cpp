#include "pool/pool_plan.hpp"

#include <algorithm>
#include <bit>

#include "nearkv/queue.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kListShare = 256;  // One byte in so many holds page lists.
constexpr std::uint64_t kStagingShare = 16;
/// What the 32 bits of a page's number reach.
constexpr std::uint64_t kNumberedBytes = (1ULL << 32) * NKV_PAGE_GRAIN_BYTES;

std::uint64_t align(std::uint64_t bytes) { return round_up(bytes, kAlignment); }

Status check_shape(const ModelShape& shape, std::string* reason) {
  const auto refuse = [&](const char* why) {
    *reason = why;
    return Status::kBadArgument;
  };
  const bool bf16 = shape.dtype == NKV_DTYPE_BF16;
  if (shape.kv_heads == 0) return refuse("a pool needs layers and KV heads");
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

}  // namespace

std::uint32_t PoolPlan::page_bytes(const ModelShape& shape, bool raw, bool codes) {
  nkv_page_shape page{};
  page.flags = codes ? std::uint8_t{NKV_PAGE_FLAG_CODES} : std::uint8_t{0};
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
  const bool sequences = shape.layers != 0;
  if (const Status status = sequences ? check_shape(shape, reason) : Status::kOk;
      status != Status::kOk) {
    return status;
  }
  if (sequences ? options.max_sequences == 0
                : options.max_objects == 0 || options.max_namespaces == 0) {
    *reason = "a pool needs room for one sequence, or for one object and its namespace";
    return Status::kBadArgument;
  }
  if (sequences && memory_bytes > kNumberedBytes) {
    *reason = "a pool with sequences takes at most " + std::to_string(kNumberedBytes >> 30) +
              " GiB: ask for that much as memory_bytes, or as memory= of the device";
    return Status::kBadArgument;
  }
  if (options.staging_bytes > memory_bytes) {
    *reason = "a staging area must fit the pool's memory of " + std::to_string(memory_bytes >> 20) +
              " MiB";
    return Status::kPoolFull;
  }
  *plan = {};
  nkv_pool_header& header = plan->header;
  header.magic = NKV_POOL_MAGIC;
  header.version = NKV_POOL_VERSION;
  header.total_bytes = memory_bytes;
  header.max_sequences = sequences ? options.max_sequences : 0;
  header.max_objects = options.max_objects;
  header.max_namespaces = options.max_namespaces;
  const std::uint64_t most_page = sequences ? most_page_bytes(shape) : 0;
  header.slab_bytes = static_cast<std::uint32_t>(std::max<std::uint64_t>(
      memory_bytes >= (1ULL << 28) ? 2 << 20 : 1 << 19, std::bit_ceil(4 * most_page)));
  std::uint64_t least_staging = 0;
  if (sequences) {
    least_staging = align(4 * most_page);
    plan->lists_bytes = align(std::max<std::uint64_t>(memory_bytes / kListShare, 1 << 16));
    plan->staging_bytes = options.staging_bytes != 0
                              ? align(options.staging_bytes)
                              : std::clamp<std::uint64_t>(align(memory_bytes / kStagingShare),
                                                          least_staging, 16 << 20);
  }
  if (plan->staging_bytes < least_staging) {
    *reason = "staging_bytes must be at least " + std::to_string(least_staging) +
              " for pages of this shape; 0 lets the pool choose";
    return Status::kPoolFull;
  }
  std::uint64_t at = kAlignment;
  const auto place = [&](std::uint64_t bytes) {
    const std::uint64_t begin = at;
    at = align(at + bytes);
    return begin;
  };
  header.sequences_at =
      place(2 * std::uint64_t{header.max_sequences} * sizeof(nkv_sequence_record));
  header.slabs_at = place(memory_bytes / header.slab_bytes * sizeof(nkv_slab_record));
  header.rings_at = place(sequences ? Queue::ring_bytes(NKV_POOL_RING_ENTRIES) : 0);
  header.lists_at = place(plan->lists_bytes);
  header.staging_at = place(plan->staging_bytes);
  header.namespaces_at =
      place(2 * std::uint64_t{header.max_namespaces} * sizeof(nkv_namespace_record));
  header.objects_at = place(std::uint64_t{header.max_objects} * sizeof(nkv_object_record));
  header.data_at = at;
  if (at + header.slab_bytes > memory_bytes) {
    const std::uint64_t least_mib = round_up(at + header.slab_bytes, 1 << 20) >> 20;
    *reason = "a pool of this shape needs at least " + std::to_string(least_mib) + " MiB";
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
  return Status::kOk;
}

}  // namespace nearkv

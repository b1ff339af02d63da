#include "pool/pool_memory.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "page/checksum.hpp"

namespace nearkv {
namespace {

std::uint32_t header_checksum(const nkv_pool_header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(nkv_pool_header, crc)));
}

/// Why a header is none of this library's; empty if it is one.
std::string fault_of(const nkv_pool_header& header) {
  if (header.magic != NKV_POOL_MAGIC) return "the memory holds no NearKV pool; create one";
  if (header.version != NKV_POOL_VERSION) {
    return "the pool is of format " + std::to_string(header.version) + ", and this library knows " +
           std::to_string(NKV_POOL_VERSION) +
           "; what it holds can be computed anew, so delete it and create one, which its engines "
           "fill again, or read it out with the version of NearKV that wrote it";
  }
  if (header.crc != header_checksum(header)) return "the pool's header is damaged; create it anew";
  return {};
}

/// Reads the header that memory holds: its first copy, or the second if that one is no header.
Status read_header(std::span<const std::byte> memory, nkv_pool_header* header,
                   std::string* reason) {
  std::string first_fault;
  for (const std::size_t at : {std::size_t{0}, std::size_t{NKV_POOL_HEADER_COPY_AT}}) {
    *header = {};
    if (memory.size() >= at + sizeof(*header)) {
      std::memcpy(header, memory.data() + at, sizeof(*header));
    }
    const std::string fault = fault_of(*header);
    if (fault.empty()) return Status::kOk;
    if (first_fault.empty()) first_fault = fault;
  }
  *reason = first_fault;
  return Status::kBadPool;
}

/// The plan's header as a pool with this seed carries it.
nkv_pool_header with_seed(nkv_pool_header header, std::uint64_t seed) {
  header.seed = seed;
  header.crc = header_checksum(header);
  return header;
}

std::uint64_t random_seed() {
  std::random_device entropy;
  return (std::uint64_t{entropy()} << 32) | entropy();
}

}  // namespace

PoolMemory::PoolMemory(Source source, const nkv_pool_header& header)
    : source_(std::move(source)),
      header_(header),
      slabs_(source_.bytes, header, source_.is_read_only ? nullptr : source_.persistence.get()) {}

Status PoolMemory::create(Source source, const PoolPlan& plan, std::shared_ptr<PoolMemory>* pool) {
  const nkv_pool_header header = with_seed(plan.header, random_seed());
  Persistence& persistence = *source.persistence;
  const auto clear = [&](std::uint64_t begin, std::uint64_t end) {
    const std::span<std::byte> part = source.bytes.subspan(begin, end - begin);
    std::ranges::fill(part, std::byte{0});
    persistence.write_back(part);
  };
  // The header goes first and comes last: a half-made pool is none.
  clear(0, NKV_POOL_HEADER_COPY_AT + sizeof(header));
  persistence.fence();
  clear(header.sequences_at, header.rings_at);
  clear(header.namespaces_at, header.data_at);
  persistence.fence();
  for (const std::size_t at : {std::size_t{0}, std::size_t{NKV_POOL_HEADER_COPY_AT}}) {
    std::memcpy(source.bytes.data() + at, &header, sizeof(header));
    persistence.write_back(source.bytes.subspan(at, sizeof(header)));
  }
  persistence.fence();
  pool->reset(new PoolMemory(std::move(source), header));
  return Status::kOk;
}

Status PoolMemory::open(Source source, const PoolPlan& plan, std::shared_ptr<PoolMemory>* pool,
                        std::string* reason) {
  nkv_pool_header found{};
  const Status status = read_header(source.bytes, &found, reason);
  if (status != Status::kOk) return status;
  const nkv_pool_header wanted = with_seed(plan.header, found.seed);
  if (std::memcmp(&found, &wanted, sizeof(found)) != 0) {
    *reason = "the pool has another shape or size; open it with what it was created with";
    return Status::kBadPool;
  }
  pool->reset(new PoolMemory(std::move(source), found));
  return Status::kOk;
}

Status PoolMemory::open(Source source, std::shared_ptr<PoolMemory>* pool, std::string* reason) {
  nkv_pool_header found{};
  Status status = read_header(source.bytes, &found, reason);
  if (status != Status::kOk) return status;
  // Every place follows from a few numbers; a header of which that is not true is a forgery.
  Pool::Options options;
  options.shape = {found.layers, found.kv_heads, found.head_dim, found.value_dim,
                   found.dtype,  found.k_form,   found.v_form};
  options.max_sequences = found.max_sequences;
  options.max_objects = found.max_objects;
  options.max_namespaces = found.max_namespaces;
  if (found.layers != 0) options.staging_bytes = found.namespaces_at - found.staging_at;
  PoolPlan plan;
  status = PoolPlan::make(source.bytes.size(), options, &plan, reason);
  if (status != Status::kOk) return Status::kBadPool;
  return open(std::move(source), plan, pool, reason);
}

}  // namespace nearkv

// nearkv.h over the C++ library.
#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "c_api/report.hpp"
#include "edge.hpp"
#include "nearkv.h"
#include "nearkv/device.hpp"
#include "nearkv/pool.hpp"

struct nearkv_device {
  std::shared_ptr<nearkv::Device> device;
};

struct nearkv_pool {
  std::unique_ptr<nearkv::Pool> pool;
};

namespace nearkv {
namespace {

std::size_t element_bytes(std::uint8_t dtype) { return nkv_element_bytes(dtype); }

std::span<const std::byte> query_of(const void* query, std::size_t rows, std::uint8_t dtype,
                                    const Pool& pool) {
  return {static_cast<const std::byte*>(query),
          rows * element_bytes(dtype) * pool.shape().head_dim};
}

/// Room for rows of one tensor; empty where the caller passed null.
std::span<std::byte> rows_of(void* rows, std::size_t count, std::size_t dim, const Pool& pool) {
  if (rows == nullptr) return {};
  return {static_cast<std::byte*>(rows), count * dim * element_bytes(pool.shape().dtype)};
}

HostRows host_rows(const nearkv_rows& rows) {
  return {static_cast<const std::byte*>(rows.first), rows.token_stride_bytes,
          rows.head_stride_bytes};
}

Pool::Options pool_options(const nearkv_pool_options& options) {
  Pool::Options result;
  result.shape = {options.shape.layers,    options.shape.kv_heads, options.shape.head_dim,
                  options.shape.value_dim, options.shape.dtype,    options.shape.k_form,
                  options.shape.v_form};
  result.max_sequences = options.max_sequences;
  result.staging_bytes = options.staging_bytes;
  result.timeout = std::chrono::milliseconds(options.timeout_ms);
  result.codes = options.codes != 0;
  return result;
}

static_assert(static_cast<int>(ColdPages::kRefuse) == NEARKV_COLD_PAGES_REFUSE &&
              static_cast<int>(ColdPages::kSkip) == NEARKV_COLD_PAGES_SKIP &&
              static_cast<int>(ColdPages::kDecode) == NEARKV_COLD_PAGES_DECODE);

AttendOptions attend_options(const nearkv_attend_options& options) {
  AttendOptions result;
  result.scale = options.scale;
  result.soft_cap = options.soft_cap;
  result.tokens = options.tokens;
  result.window = options.window;
  result.sinks = options.sinks;
  result.mode = options.mode;
  result.top_k = options.top_k;
  result.error = options.error;
  result.if_faster = options.if_faster != 0;
  result.byte_cap = options.byte_cap;
  result.z16 = options.z16;
  result.cold = static_cast<ColdPages>(options.cold);
  return result;
}

AttendRequest attend_request(const nearkv_attend_request& request, const Pool& pool) {
  AttendRequest result;
  result.sequence = request.sequence;
  result.layer = request.layer;
  result.kv_head = request.kv_head;
  result.query_dtype = request.query_dtype;
  result.rows = request.rows;
  result.query = query_of(request.query, request.rows, request.query_dtype, pool);
  result.output = {request.output, std::size_t{request.rows} * pool.shape().value_dim};
  result.lse = {request.lse, request.rows};
  if (request.bound != nullptr) result.bound = {request.bound, request.rows};
  return result;
}

Pool::TopKRequest top_k_request(const nearkv_top_k_request& request, const Pool& pool) {
  const std::size_t places = std::size_t{request.rows} * request.top_k;
  Pool::TopKRequest result;
  result.sequence = request.sequence;
  result.layer = request.layer;
  result.kv_head = request.kv_head;
  result.query_dtype = request.query_dtype;
  result.rows = request.rows;
  result.top_k = request.top_k;
  if (request.mode != 0) result.mode = request.mode;
  result.z16 = request.z16;
  result.scale = request.scale;
  result.tokens = request.tokens;
  result.window = request.window;
  result.sinks = request.sinks;
  result.cold = static_cast<ColdPages>(request.cold);
  result.query = query_of(request.query, request.rows, request.query_dtype, pool);
  result.ids = {request.ids, places};
  result.scores = {request.scores, places};
  result.counts = {request.counts, request.rows};
  return result;
}

using MakePool = Status (*)(std::shared_ptr<Device>, const Pool::Options&, std::unique_ptr<Pool>*,
                            std::string*);

int make_pool(MakePool make, nearkv_device* device, const nearkv_pool_options* options,
              nearkv_pool** pool, char* reason, std::size_t reason_bytes) {
  return report(reason, reason_bytes, [&](std::string* why) {
    auto made = std::make_unique<nearkv_pool>();
    const Status status = make(device->device, pool_options(*options), &made->pool, why);
    if (status == Status::kOk) *pool = made.release();
    return status;
  });
}

}  // namespace
}  // namespace nearkv

using nearkv::to_errno;

int nearkv_device_open(const char* uri, nearkv_device** device, char* reason,
                       std::size_t reason_bytes) {
  return nearkv::report(reason, reason_bytes, [&](std::string* why) {
    auto opened = std::make_unique<nearkv_device>();
    std::unique_ptr<nearkv::Device> owned;
    const nearkv::Status status = nearkv::open_device(uri, &owned, why);
    if (status != nearkv::Status::kOk) return status;
    opened->device = std::move(owned);
    *device = opened.release();
    return status;
  });
}

void nearkv_device_close(nearkv_device* device) { delete device; }

void nearkv_pool_options_init(nearkv_pool_options* options) {
  const nearkv::Pool::Options defaults;
  const nearkv::ModelShape& shape = defaults.shape;
  *options = {};
  options->shape = {shape.layers, shape.kv_heads, shape.head_dim, shape.value_dim,
                    shape.dtype,  shape.k_form,   shape.v_form};
  options->max_sequences = defaults.max_sequences;
  options->staging_bytes = defaults.staging_bytes;
  options->timeout_ms = static_cast<std::uint32_t>(defaults.timeout.count());
}

int nearkv_pool_create(nearkv_device* device, const nearkv_pool_options* options,
                       nearkv_pool** pool, char* reason, std::size_t reason_bytes) {
  return nearkv::make_pool(nearkv::Pool::create, device, options, pool, reason, reason_bytes);
}

int nearkv_pool_open(nearkv_device* device, const nearkv_pool_options* options, nearkv_pool** pool,
                     char* reason, std::size_t reason_bytes) {
  return nearkv::make_pool(nearkv::Pool::open, device, options, pool, reason, reason_bytes);
}

void nearkv_pool_close(nearkv_pool* pool) { delete pool; }

int nearkv_set_gains(nearkv_pool* pool, std::uint16_t layer, std::uint16_t kv_head,
                     const std::int8_t* gains) {
  return to_errno(pool->pool->set_gains(layer, kv_head, {gains, pool->pool->shape().head_dim}));
}

int nearkv_gains(nearkv_pool* pool, std::uint16_t layer, std::uint16_t kv_head,
                 std::int8_t* gains) {
  return to_errno(nearkv::at_edge([&] {
    std::vector<std::int8_t> found;
    const nearkv::Status status = pool->pool->gains(layer, kv_head, &found);
    std::ranges::copy(found, gains);
    return status;
  }));
}

int nearkv_create_sequence(nearkv_pool* pool, std::uint64_t sequence) {
  return to_errno(pool->pool->create_sequence(sequence));
}

int nearkv_fork(nearkv_pool* pool, std::uint64_t parent, std::uint64_t child,
                std::uint32_t tokens) {
  return to_errno(pool->pool->fork(parent, child, tokens));
}

int nearkv_drop(nearkv_pool* pool, std::uint64_t sequence) {
  return to_errno(pool->pool->drop(sequence));
}

int nearkv_append(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                  const nearkv_rows* keys, const nearkv_rows* values, std::uint32_t tokens) {
  return to_errno(pool->pool->append(sequence, layer, nearkv::host_rows(*keys),
                                     nearkv::host_rows(*values), tokens));
}

int nearkv_tokens(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                  std::uint32_t* tokens) {
  return to_errno(pool->pool->tokens(sequence, layer, tokens));
}

void nearkv_attend_options_init(nearkv_attend_options* options) {
  const nearkv::AttendOptions defaults;
  *options = {};
  options->scale = defaults.scale;
  options->mode = defaults.mode;
  options->top_k = defaults.top_k;
  options->error = defaults.error;
}

int nearkv_attend(nearkv_pool* pool, const nearkv_attend_request* requests, std::size_t count,
                  const nearkv_attend_options* options) {
  return to_errno(nearkv::at_edge([&] {
    std::vector<nearkv::AttendRequest> converted;
    converted.reserve(count);
    for (const nearkv_attend_request& request : std::span(requests, count)) {
      converted.push_back(nearkv::attend_request(request, *pool->pool));
    }
    return pool->pool->attend(converted, nearkv::attend_options(*options));
  }));
}

int nearkv_top_k(nearkv_pool* pool, const nearkv_top_k_request* request) {
  return to_errno(pool->pool->top_k(nearkv::top_k_request(*request, *pool->pool)));
}

int nearkv_gather(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                  std::uint16_t kv_head, const std::uint32_t* ids, std::uint32_t count, void* keys,
                  void* values) {
  const nearkv::ModelShape& shape = pool->pool->shape();
  return to_errno(pool->pool->gather(sequence, layer, kv_head, {ids, count},
                                     nearkv::rows_of(keys, count, shape.head_dim, *pool->pool),
                                     nearkv::rows_of(values, count, shape.value_dim, *pool->pool)));
}

int nearkv_read(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                std::uint16_t kv_head, std::uint32_t first, std::uint32_t count, void* keys,
                void* values) {
  const nearkv::ModelShape& shape = pool->pool->shape();
  return to_errno(pool->pool->read(sequence, layer, kv_head, first, count,
                                   nearkv::rows_of(keys, count, shape.head_dim, *pool->pool),
                                   nearkv::rows_of(values, count, shape.value_dim, *pool->pool)));
}

int nearkv_scrub(nearkv_pool* pool, std::uint64_t sequence, std::uint64_t* pages) {
  return to_errno(pool->pool->scrub(sequence, pages));
}

int nearkv_transcode(nearkv_pool* pool, std::uint64_t sequence, std::uint8_t codec) {
  return to_errno(pool->pool->transcode(sequence, codec));
}

int nearkv_transcode_pages(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                           std::uint16_t kv_head, const std::uint32_t* pages, std::uint32_t count,
                           std::uint8_t codec, std::uint32_t* moved) {
  return to_errno(pool->pool->transcode(sequence, layer, kv_head, {pages, count}, codec, moved));
}

int nearkv_codecs(nearkv_pool* pool, std::uint64_t sequence, std::uint16_t layer,
                  std::uint16_t kv_head, std::uint8_t* codecs, std::uint32_t room,
                  std::uint32_t* pages) {
  return to_errno(nearkv::at_edge([&] {
    std::vector<std::uint8_t> all;
    const nearkv::Status status = pool->pool->codecs(sequence, layer, kv_head, &all);
    if (status != nearkv::Status::kOk) return status;
    *pages = static_cast<std::uint32_t>(all.size());
    std::copy_n(all.begin(), std::min<std::size_t>(room, all.size()), codecs);
    return status;
  }));
}

void nearkv_pool_last_error(nearkv_pool* pool, char* text, std::size_t bytes) {
  nearkv::copy_text(pool->pool->last_error(), text, bytes);
}

void nearkv_pool_stats(nearkv_pool* pool, nearkv_stats* stats) {
  const nearkv::NearStats now = pool->pool->stats();
  *stats = {now.commands,       now.link_to_device_bytes, now.link_from_device_bytes,
            now.stream_bytes,   now.refine_bytes,         now.exact_bytes,
            now.value_bytes,    now.device_ticks,         now.nonfinite,
            now.dense_fallbacks};
}

void nearkv_pool_usage(nearkv_pool* pool, nearkv_usage* usage) {
  const nearkv::PoolUsage now = pool->pool->usage();
  *usage = {now.total_bytes, now.page_bytes, now.pages, now.sequences, now.damaged_pages};
}

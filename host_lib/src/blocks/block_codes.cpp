#include "nearkv/block_codes.hpp"

#include <cstring>
#include <utility>

#include "blocks/block_run.hpp"
#include "blocks/code_pages.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kMostPages = std::size_t{1} << 22;  ///< Of so many grains each at most.
static_assert(kMostPages * std::size_t{NKV_MAX_HEAD_DIM} * 64 / NKV_PAGE_GRAIN_BYTES <=
              std::size_t{1} << 32);

Status check(const BlockCache& cache, std::span<const std::int8_t> gains, const char** why) {
  const Status status = check_cache(cache, why);
  if (status != Status::kOk) return status;
  const std::size_t channels = std::size_t{cache.kv_heads} * cache.head_dim;
  const std::size_t block_pages =
      std::size_t{cache.block_tokens} / NKV_PAGE_TOKENS * cache.kv_heads;
  if (cache.dtype != NKV_DTYPE_BF16 || cache.layout != BlockLayout::kRows) {
    *why = "only rows of bfloat16 have codes";
  } else if (cache.block_tokens % NKV_PAGE_TOKENS != 0) {
    *why = "codes need blocks of a multiple of 64 tokens";
  } else if (cache.blocks > kMostPages / block_pages) {
    *why = "the cache has more memory than codes can be kept of";
    return Status::kBadArgument;
  } else if (!gains.empty() && gains.size() != channels) {
    *why = "there must be a gain for each channel of each KV head";
    return Status::kBadArgument;
  } else {
    return Status::kOk;
  }
  return Status::kUnsupported;
}

}  // namespace

BlockCodes::BlockCodes(std::unique_ptr<CodePages> pages) : pages_(std::move(pages)) {}
BlockCodes::~BlockCodes() = default;

Status BlockCodes::create(const BlockCache& cache, std::span<const std::int8_t> gains,
                          std::unique_ptr<BlockCodes>* codes, std::string* reason) {
  const char* why = "there is no memory for codes";
  const Status status = at_edge([&] {
    const Status checked = check(cache, gains, &why);
    if (checked == Status::kOk) {
      codes->reset(new BlockCodes(std::make_unique<CodePages>(cache, gains)));
    }
    return checked;
  });
  if (status != Status::kOk && reason != nullptr) *reason = why;
  return status;
}

void BlockCodes::forget(std::span<const std::int64_t> slots) { pages_->forget(slots); }

Status BlockCodes::set_gains(std::span<const std::int8_t> gains) {
  return pages_->set_gains(gains) ? Status::kOk : Status::kBadArgument;
}

BlockCodes::Counts BlockCodes::counts() const { return pages_->counts; }

std::size_t BlockCodes::most_bytes() const { return pages_->most_bytes(); }

Status store_rows(const BlockCache& cache, std::byte* keys, std::byte* values, const NewRows& rows,
                  std::span<const std::int64_t> slots) {
  if (cache.layout != BlockLayout::kRows) return Status::kUnsupported;
  const auto block_tokens = static_cast<std::int64_t>(cache.block_tokens);
  for (const std::int64_t slot : slots) {
    if (slot >= 0 && static_cast<std::size_t>(slot / block_tokens) >= cache.blocks) {
      return Status::kBadArgument;
    }
  }
  const std::size_t row_bytes = cache.row_bytes();
  for (std::size_t token = 0; token < slots.size(); ++token) {
    if (slots[token] < 0) continue;
    const auto block = static_cast<std::size_t>(slots[token] / block_tokens);
    const auto inside = static_cast<std::size_t>(slots[token] % block_tokens);
    const std::size_t place = block * cache.block_stride_bytes + inside * row_bytes;
    for (std::size_t head = 0; head < cache.kv_heads; ++head) {
      const std::size_t to = place + head * cache.head_stride_bytes;
      std::memcpy(keys + to, rows.keys + token * rows.key_stride_bytes + head * row_bytes,
                  row_bytes);
      std::memcpy(values + to, rows.values + token * rows.value_stride_bytes + head * row_bytes,
                  row_bytes);
    }
  }
  return Status::kOk;
}

}  // namespace nearkv

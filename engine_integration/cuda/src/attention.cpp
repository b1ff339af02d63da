// Attention and merge of the C API.
#include <cmath>

#include "handle.hpp"
#include "kernels/attend.hpp"
#include "kernels/merge.hpp"

namespace nearkv::cuda {
namespace {

Outcome check_strides(const nearkv_cuda_strides& strides, std::uint32_t dtype, const char* name) {
  const std::int64_t whole = dtype == NKV_DTYPE_FP32 ? 4 : 8;  // Elements of 16 bytes.
  if (strides.batch % whole == 0 && strides.head % whole == 0 && strides.row % whole == 0)
    return {};
  return refuse(std::string(name) + "'s rows must start at multiples of 16 bytes; copy it");
}

Outcome check_attend(const Machine& machine, const nearkv_cuda_attend_args& work) {
  if (!is_number_dtype(work.dtype)) return refuse("attention takes BF16, FP16 and FP32");
  if (Outcome dim = check_dim(work.head_dim, "head_dim"); !dim.ok()) return dim;
  if (Outcome dim = check_dim(work.value_dim, "value_dim"); !dim.ok()) return dim;
  if (work.splits == 0) return refuse("splits is 0; 1 is the least");
  if (!std::isfinite(work.scale) || !std::isfinite(work.soft_cap) || work.soft_cap < 0) {
    return refuse("scale and soft_cap must be finite, and soft_cap not negative");
  }
  for (const auto& [strides, name] :
       {std::pair{work.query_strides, "query"}, std::pair{work.key_strides, "key"},
        std::pair{work.value_strides, "value"}}) {
    if (Outcome outcome = check_strides(strides, work.dtype, name); !outcome.ok()) return outcome;
  }
  const bool has_tokens = work.tokens != 0;
  const Pointer pointers[] = {{work.query, "query"},
                              {work.key, "key", sizeof(Words4), !has_tokens},
                              {work.value, "value", sizeof(Words4), !has_tokens},
                              {work.first, "first", sizeof(std::int32_t), true},
                              {work.end, "end", sizeof(std::int32_t), true},
                              {work.output, "output", sizeof(float)},
                              {work.lse, "lse", sizeof(float)}};
  return check(machine, pointers);
}

Outcome check_merge(const Machine& machine, const nearkv_cuda_merge_args& work) {
  constexpr std::uint64_t kMostParts = 1 << 22;  // Sums of more could overflow.
  if (work.sources > NEARKV_CUDA_MERGE_SOURCES) return refuse("there are too many sources");
  if (work.value_dim == 0) return refuse("value_dim is 0");
  std::uint64_t parts = 0;
  for (std::uint32_t s = 0; s < work.sources; ++s) {
    const nearkv_cuda_parts& source = work.source[s];
    parts += source.count;
    const Pointer pointers[] = {
        {source.output, "a source's output", sizeof(float), source.count == 0},
        {source.lse, "a source's lse", sizeof(float), source.count == 0}};
    if (Outcome outcome = check(machine, pointers); !outcome.ok()) return outcome;
  }
  if (parts > kMostParts) return refuse("there are more than 2^22 parts; merge them in turns");
  const Pointer pointers[] = {{work.output, "output", sizeof(float)},
                              {work.lse, "lse", sizeof(float)}};
  return check(machine, pointers);
}

/// Whether a block shall take so many rows of a group: no more than there are, and whose memory it
/// may have.
template <unsigned kRows>
bool suits(const Machine& machine, const nearkv_cuda_attend_args& work) {
  return work.group > kRows / 2 &&
         Attend<kRows>(work).grid().shared_bytes <= machine.info().shared_bytes;
}

template <unsigned kRows>
Outcome attend(const Machine& machine, const nearkv_cuda_attend_args& work, void* stream) {
  return machine.launch(Attend<kRows>(work), stream);
}

}  // namespace
}  // namespace nearkv::cuda

using nearkv::cuda::Machine;
using nearkv::cuda::Outcome;

std::uint8_t nearkv_cuda_attend(struct nearkv_cuda* gpu, const struct nearkv_cuda_attend_args* work,
                                void* stream) {
  return nearkv::cuda::at_edge(gpu, [&](const Machine& machine) {
    if (work->batch == 0 || work->kv_heads == 0 || work->group == 0) return Outcome{};
    Outcome outcome = nearkv::cuda::check_attend(machine, *work);
    if (!outcome.ok()) return outcome;
    using namespace nearkv::cuda;
    if (suits<8>(machine, *work)) return attend<8>(machine, *work, stream);
    if (suits<4>(machine, *work)) return attend<4>(machine, *work, stream);
    if (suits<2>(machine, *work)) return attend<2>(machine, *work, stream);
    return attend<1>(machine, *work, stream);
  });
}

std::uint32_t nearkv_cuda_attend_dim(struct nearkv_cuda* gpu, std::uint32_t dtype) {
  nearkv_cuda_attend_args work{};
  work.group = 1;
  work.dtype = dtype;
  work.head_dim = NKV_MAX_HEAD_DIM;
  while (work.head_dim > 16 && !nearkv::cuda::suits<1>(gpu->machine, work)) work.head_dim -= 16;
  return work.head_dim;
}

std::uint32_t nearkv_cuda_splits(struct nearkv_cuda* gpu, std::uint32_t row_groups,
                                 std::uint32_t tokens) {
  constexpr std::uint32_t kBlocksPerMultiprocessor = 8;
  constexpr std::uint32_t kLeastTokens = 256;
  const std::uint32_t wanted = gpu->machine.info().multiprocessors * kBlocksPerMultiprocessor;
  const std::uint32_t by_blocks = wanted / std::max(row_groups, 1U);
  return std::clamp(by_blocks, 1U, std::max(tokens / kLeastTokens, 1U));
}

std::uint8_t nearkv_cuda_merge(struct nearkv_cuda* gpu, const struct nearkv_cuda_merge_args* work,
                               void* stream) {
  return nearkv::cuda::at_edge(gpu, [&](const Machine& machine) {
    if (work->rows == 0) return Outcome{};
    Outcome outcome = nearkv::cuda::check_merge(machine, *work);
    return outcome.ok() ? machine.launch(nearkv::cuda::Merge(*work), stream) : outcome;
  });
}

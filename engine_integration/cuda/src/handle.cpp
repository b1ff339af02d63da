#include "handle.hpp"

using nearkv::cuda::Machine;
using nearkv::cuda::Outcome;

std::uint8_t nearkv_cuda_open(int ordinal, struct nearkv_cuda** gpu, char* reason,
                              size_t reason_bytes) {
  try {
    Machine machine;
    const Outcome outcome = Machine::open(ordinal, &machine);
    nearkv::cuda::copy_text(outcome.reason, reason, reason_bytes);
    if (outcome.ok()) *gpu = new nearkv_cuda{machine, {}, {}};
    return static_cast<std::uint8_t>(outcome.status);
  } catch (...) {
    return NKV_STATUS_OUT_OF_MEMORY;
  }
}

void nearkv_cuda_close(struct nearkv_cuda* gpu) { delete gpu; }

void nearkv_cuda_describe(struct nearkv_cuda* gpu, struct nearkv_cuda_info* info) {
  *info = gpu->machine.info();
}

void nearkv_cuda_last_error(struct nearkv_cuda* gpu, char* text, size_t bytes) {
  const std::scoped_lock lock(gpu->mutex);
  nearkv::cuda::copy_text(gpu->last_error, text, bytes);
}

size_t nearkv_cuda_structures(uint32_t* bytes, size_t count) {
  constexpr std::uint32_t kBytes[] = {sizeof(nearkv_cuda_info), sizeof(nearkv_cuda_strides),
                                      sizeof(nearkv_cuda_attend_args), sizeof(nearkv_cuda_parts),
                                      sizeof(nearkv_cuda_merge_args)};
  std::copy_n(kBytes, std::min(count, std::size(kBytes)), bytes);
  return std::size(kBytes);
}

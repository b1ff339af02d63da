// Commands from kernels, in the C API.
#include "handle.hpp"
#include "kernels/near_queue.hpp"

struct nearkv_cuda_queue {
  nearkv::cuda::NearQueue queue;
};

namespace nearkv::cuda {
namespace {

Outcome check_places(const Machine& machine, const nearkv_cuda_queue_places& places) {
  const std::uint32_t entries = places.entries;
  if (entries < NKV_MIN_RING_ENTRIES || entries > NKV_MAX_RING_ENTRIES ||
      (entries & (entries - 1)) != 0) {
    return refuse("a ring has a power of two of entries, " + std::to_string(NKV_MIN_RING_ENTRIES) +
                  " to " + std::to_string(NKV_MAX_RING_ENTRIES));
  }
  const Pointer pointers[] = {{places.window, "window"},
                              {places.submissions, "submissions", NKV_BURST_BYTES},
                              {places.completions, "completions", NKV_BURST_BYTES},
                              {places.doorbell, "doorbell"}};
  return check(machine, pointers);
}

Outcome check_submission(const Machine& machine, const nearkv_cuda_submission& work,
                         std::uint32_t entries) {
  if (work.count > entries) return refuse("more commands than the ring has entries");
  if (work.query_bytes == 0 || work.query_bytes % sizeof(Words4) != 0) {
    return refuse("query_bytes must be a multiple of 16");
  }
  const Pointer pointers[] = {{work.commands, "commands"}, {work.queries, "queries"}};
  return check(machine, pointers);
}

}  // namespace
}  // namespace nearkv::cuda

using nearkv::cuda::at_edge;
using nearkv::cuda::Machine;
using nearkv::cuda::NearState;
using nearkv::cuda::Outcome;
using nearkv::cuda::Pointer;

std::uint8_t nearkv_cuda_queue_open(struct nearkv_cuda* gpu,
                                    const struct nearkv_cuda_queue_places* places,
                                    struct nearkv_cuda_queue** queue) {
  return at_edge(gpu, [&](const Machine& machine) {
    Outcome outcome = nearkv::cuda::check_places(machine, *places);
    if (!outcome.ok()) return outcome;
    void* state = nullptr;
    outcome = machine.allocate(sizeof(NearState), &state);
    if (!outcome.ok()) return outcome;
    const NearState fresh{};
    outcome = machine.put(state, &fresh, sizeof(fresh), nullptr);
    auto* const made = outcome.ok() ? new (std::nothrow) nearkv_cuda_queue{} : nullptr;
    if (made == nullptr) {
      machine.release(state);
      return outcome.ok() ? Outcome{nearkv::Status::kOutOfMemory, "opening a queue"} : outcome;
    }
    made->queue = {.window = static_cast<std::byte*>(places->window),
                   .submissions = static_cast<std::byte*>(places->submissions),
                   .completions = static_cast<std::byte*>(places->completions),
                   .doorbell = static_cast<std::byte*>(places->doorbell),
                   .state = static_cast<NearState*>(state),
                   .window_bytes = places->window_bytes,
                   .entries = places->entries};
    *queue = made;
    return Outcome{};
  });
}

void nearkv_cuda_queue_close(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue) {
  if (queue == nullptr) return;
  (void)at_edge(gpu, [&](const Machine& machine) {
    machine.release(queue->queue.state);  // Waits for kernels that may use it.
    return Outcome{};
  });
  delete queue;
}

std::uint8_t nearkv_cuda_queue_submit(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue,
                                      const struct nearkv_cuda_submission* work, void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (work->count == 0) return Outcome{};
    Outcome outcome = nearkv::cuda::check_submission(machine, *work, queue->queue.entries);
    return outcome.ok() ? machine.launch(nearkv::cuda::NearSubmit{queue->queue, *work}, stream)
                        : outcome;
  });
}

std::uint8_t nearkv_cuda_queue_wait(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue,
                                    std::uint32_t count, std::uint64_t timeout_ns,
                                    struct nkv_completion* taken, void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (count == 0) return Outcome{};
    if (count > queue->queue.entries) {
      return nearkv::cuda::refuse("more completions than the ring has entries");
    }
    const Pointer pointers[] = {{taken, "taken"}};
    Outcome outcome = nearkv::cuda::check(machine, pointers);
    return outcome.ok()
               ? machine.launch(nearkv::cuda::NearWait{queue->queue, taken, timeout_ns, count},
                                stream)
               : outcome;
  });
}

std::uint8_t nearkv_cuda_queue_state(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue,
                                     struct nearkv_cuda_queue_report* state, void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    NearState now{};
    Outcome outcome = machine.fetch(&now, queue->queue.state, sizeof(now), stream);
    *state = {now.status, now.index, now.detail};
    return outcome;
  });
}

std::uint8_t nearkv_cuda_queue_resume(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue,
                                      void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    NearState now{};
    Outcome outcome = machine.fetch(&now, queue->queue.state, sizeof(now), stream);
    if (!outcome.ok()) return outcome;
    if (now.status == NKV_STATUS_TIMEOUT) {
      return nearkv::cuda::refuse("a queue that has timed out has to be opened anew");
    }
    now.status = NKV_STATUS_OK;
    return machine.put(queue->queue.state, &now, sizeof(now), stream);
  });
}

std::uint8_t nearkv_cuda_queue_serve(struct nearkv_cuda* gpu, struct nearkv_cuda_queue* queue,
                                     const struct nearkv_cuda_submission* work,
                                     struct nearkv_cuda_mailbox* mailbox, std::uint64_t timeout_ns,
                                     std::uint64_t idle_ns, struct nkv_completion* taken,
                                     void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    Outcome outcome = nearkv::cuda::check_submission(machine, *work, queue->queue.entries);
    if (!outcome.ok()) return outcome;
    const Pointer pointers[] = {{taken, "taken"}, {mailbox, "mailbox", sizeof(std::uint32_t)}};
    outcome = nearkv::cuda::check(machine, pointers);
    if (!outcome.ok()) return outcome;
    return machine.launch(nearkv::cuda::NearServe{.queue = queue->queue,
                                                  .work = *work,
                                                  .taken = taken,
                                                  .mailbox = mailbox,
                                                  .timeout_ns = timeout_ns,
                                                  .idle_ns = idle_ns},
                          stream);
  });
}

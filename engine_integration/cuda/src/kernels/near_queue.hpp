// Commands to a near-data device from a kernel: ring, doorbell and completions, without a host.
#pragma once

#include "nearkv_cuda.h"
#include "numbers.hpp"

namespace nearkv::cuda {

/// How far the kernels are with a queue; in the GPU's memory, so that a graph that is replayed goes
/// on where the replay before it ended. One kernel at a time works a queue.
struct NearState {
  std::uint32_t tail;    ///< Commands written, modulo 2^16.
  std::uint32_t polled;  ///< Completions taken, modulo 2^16.
  std::uint32_t status;  ///< NKV_STATUS_OK, or the first failure; later submissions do nothing.
  std::uint32_t index;   ///< Of the command that failed, in its submission.
  std::uint64_t detail;  ///< Its completion's.
};

/// A lent queue (nearkv/lent_queue.hpp) as kernels see it.
struct NearQueue {
  std::byte* window = nullptr;  ///< Address 0 of its commands.
  std::byte* submissions = nullptr;
  std::byte* completions = nullptr;
  std::byte* doorbell = nullptr;
  NearState* state = nullptr;
  std::uint64_t window_bytes = 0;
  std::uint32_t entries = 0;
};

/// What a block's threads have come to, in its shared memory. All ones: nothing.
struct Faults {
  std::uint64_t failed;  ///< The least of index << 8 | status.
  std::uint64_t late;    ///< The least index that was not answered in time.
};

/// The steps of one block's threads, which all take them. Shared memory begins with Faults.
template <typename Block>
class NearWorker {
 public:
  NKV_KERNEL NearWorker(Block& block, const NearQueue& queue) : block_(block), queue_(queue) {}

  /// Writes queries and commands, and rings once.
  NKV_KERNEL void submit(const nearkv_cuda_submission& work) {
    if (queue_.state->status != NKV_STATUS_OK) return;
    const std::uint32_t tail = queue_.state->tail;
    const std::uint32_t in_flight = (tail - queue_.state->polled) & 0xFFFFU;
    const std::uint64_t fault = find_fault(work, in_flight);
    if (fault != kNone) {
      if (block_.thread() == 0) {
        fail(static_cast<std::uint8_t>(fault), static_cast<std::uint32_t>(fault >> 8), 0);
      }
      block_.sync();
      return;
    }
    const std::uint32_t words = work.query_bytes / static_cast<std::uint32_t>(sizeof(Words4));
    for (std::uint32_t i = block_.thread(); i < work.count * words; i += kThreads) {
      const std::uint64_t place = work.commands[i / words].query;
      reinterpret_cast<Words4*>(queue_.window + place)[i % words] =
          reinterpret_cast<const Words4*>(work.queries)[i];
    }
    for (std::uint32_t i = block_.thread(); i < work.count * kCommandWords; i += kThreads) {
      const std::uint32_t slot = (tail + i / kCommandWords) % queue_.entries;
      Words4 word = reinterpret_cast<const Words4*>(work.commands)[i];
      if (i % kCommandWords == 0) set_tag(tail + i / kCommandWords, &word);
      reinterpret_cast<Words4*>(queue_.submissions)[slot * kCommandWords + i % kCommandWords] =
          word;
    }
    block_.sync();
    if (block_.thread() != 0) return;
    queue_.state->tail = (tail + work.count) & 0xFFFFU;
    // What the others of the block wrote comes before it too: the barrier is theirs and ours. A
    // whole word, since the field's neighbour is zero and no device sees half of a store.
    block_.store_release(doorbell_word(offsetof(nkv_doorbell_line, sq_tail)),
                         (tail + work.count) & 0xFFFFU);
  }

  /// Takes `count` completions in the order of submission. What they name is then read by this
  /// block and by kernels that start later. A failure leaves NearState at the first of them. Of a
  /// queue that has failed, those that are still under way are taken all the same, as nobody else's
  /// wait may find them. TIMEOUT outranks what else there is to tell: after it nobody knows what
  /// the device still writes, and the queue has to be opened anew.
  NKV_KERNEL void wait(std::uint32_t count, std::uint64_t timeout_ns, nkv_completion* taken) {
    block_.sync();
    const std::uint32_t before = queue_.state->status;
    if (before == NKV_STATUS_TIMEOUT) return;
    const std::uint32_t polled = queue_.state->polled;
    if (before != NKV_STATUS_OK) {
      // Refused submissions have none.
      const std::uint32_t in_flight = (queue_.state->tail - polled) & 0xFFFFU;
      count = count < in_flight ? count : in_flight;
    }
    const std::uint64_t start_ns = block_.now_ns();
    Faults* const faults = clear_faults();
    for (std::uint32_t i = block_.thread(); i < count; i += kThreads) {
      const std::uint8_t status = take((polled + i) & 0xFFFFU, start_ns, timeout_ns, &taken[i]);
      if (status == NKV_STATUS_TIMEOUT) {
        block_.lower(&faults->late, i);
      } else if (status != NKV_STATUS_OK) {
        block_.lower(&faults->failed, std::uint64_t{i} << 8 | status);
      }
    }
    block_.sync();
    if (block_.thread() == 0) {
      const auto index = static_cast<std::uint32_t>(faults->failed >> 8);
      if (faults->late != kNone) {
        count = static_cast<std::uint32_t>(faults->late);
        fail(NKV_STATUS_TIMEOUT, count, 0);
      } else if (faults->failed != kNone && before == NKV_STATUS_OK) {
        fail(static_cast<std::uint8_t>(faults->failed), index, taken[index].detail);
      }
      queue_.state->polled = (polled + count) & 0xFFFFU;
      block_.store_release(doorbell_word(offsetof(nkv_doorbell_line, cq_head)),
                           (polled + count) & 0xFFFFU);
    }
    block_.sync();
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint32_t kCommandWords = NKV_COMMAND_BYTES / sizeof(Words4);

  NKV_KERNEL Faults* clear_faults() {
    auto* const faults = reinterpret_cast<Faults*>(block_.shared());
    block_.sync();
    if (block_.thread() == 0) *faults = {kNone, kNone};
    block_.sync();
    return faults;
  }

  /// Why the commands cannot be written, to all threads alike.
  NKV_KERNEL std::uint64_t find_fault(const nearkv_cuda_submission& work, std::uint32_t in_flight) {
    std::uint64_t* const failed = &clear_faults()->failed;
    if (in_flight > queue_.entries || work.count > queue_.entries - in_flight) {
      return NKV_STATUS_QUEUE_FULL;
    }
    for (std::uint32_t i = block_.thread(); i < work.count; i += kThreads) {
      const std::uint64_t place = work.commands[i].query;
      if (place % sizeof(Words4) != 0) block_.lower(failed, i << 8 | NKV_STATUS_BAD_FIELD);
      if (place > queue_.window_bytes || work.query_bytes > queue_.window_bytes - place) {
        block_.lower(failed, i << 8 | NKV_STATUS_ADDRESS_FAULT);
      }
    }
    block_.sync();
    return *failed;
  }

  [[nodiscard]] NKV_KERNEL std::uint32_t* doorbell_word(std::size_t offset) const {
    return reinterpret_cast<std::uint32_t*>(queue_.doorbell + offset);
  }

  /// Opcode, flags and tag are the first word.
  NKV_KERNEL static void set_tag(std::uint32_t tag, Words4* word) {
    static_assert(offsetof(nkv_attend_command, tag) == 2);
    word->word[0] = (word->word[0] & 0xFFFFU) | (tag << 16);
  }

  NKV_KERNEL std::uint8_t take(std::uint32_t index, std::uint64_t start_ns,
                               std::uint64_t timeout_ns, nkv_completion* taken) {
    const std::byte* const entry =
        queue_.completions + index % queue_.entries * std::size_t{NKV_COMPLETION_BYTES};
    const std::uint32_t phase = index / queue_.entries % 2 == 0 ? 1 : 0;
    const auto* const first = reinterpret_cast<const std::uint32_t*>(entry);
    while (block_.load_acquire(first) >> 24 != phase) {
      if (block_.now_ns() - start_ns > timeout_ns) return NKV_STATUS_TIMEOUT;
      block_.pause();
    }
    constexpr unsigned kWords = NKV_COMPLETION_BYTES / sizeof(Words4);
    for (unsigned w = 0; w < kWords; ++w) {
      reinterpret_cast<Words4*>(taken)[w] = reinterpret_cast<const Words4*>(entry)[w];
    }
    return taken->status;
  }

  NKV_KERNEL void fail(std::uint8_t status, std::uint32_t index, std::uint64_t detail) {
    queue_.state->status = status;
    queue_.state->index = index;
    queue_.state->detail = detail;
  }

  Block& block_;
  const NearQueue& queue_;
};

/// Between the two a stream can attend to what the GPU itself holds.
struct NearSubmit {
  NearQueue queue;
  nearkv_cuda_submission work;

  [[nodiscard]] static Grid grid() { return {1, sizeof(Faults)}; }
  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    NearWorker<Block>(block, queue).submit(work);
  }
};

struct NearWait {
  NearQueue queue;
  nkv_completion* taken = nullptr;  ///< [count].
  std::uint64_t timeout_ns = 0;
  std::uint32_t count = 0;

  [[nodiscard]] static Grid grid() { return {1, sizeof(Faults)}; }
  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    NearWorker<Block>(block, queue).wait(count, timeout_ns, taken);
  }
};

/// Submits the same commands, with the queries of that moment, and waits for them, each time that
/// it is asked; ends when told to, after a failure, and when nobody has asked for idle_ns.
struct NearServe {
  NearQueue queue;
  nearkv_cuda_submission work;
  nkv_completion* taken = nullptr;
  nearkv_cuda_mailbox* mailbox = nullptr;
  std::uint64_t timeout_ns = 0;
  std::uint64_t idle_ns = 0;

  [[nodiscard]] static Grid grid() { return {1, sizeof(Faults) + sizeof(std::uint64_t)}; }
  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    auto* const next = reinterpret_cast<std::uint32_t*>(block.shared() + sizeof(Faults));
    NearWorker<Block> worker(block, queue);
    std::uint32_t served = block.load_acquire(&mailbox->done);
    while (true) {
      block.sync();
      if (block.thread() == 0) *next = await(block, served) ? served + 1 : served;
      block.sync();
      if (*next == served) return;
      served = *next;
      worker.submit(work);
      // Not after a refusal: what is under way then is somebody else's.
      if (queue.state->status == NKV_STATUS_OK) worker.wait(work.count, timeout_ns, taken);
      if (block.thread() == 0) block.store_release(&mailbox->done, served);
      if (queue.state->status != NKV_STATUS_OK) return;
    }
  }

 private:
  template <typename Block>
  NKV_KERNEL bool await(Block& block, std::uint32_t served) const {
    const std::uint64_t start_ns = block.now_ns();
    while (block.load_acquire(&mailbox->asked) == served) {
      if (block.load_acquire(&mailbox->stop) != 0) return false;
      if (block.now_ns() - start_ns > idle_ns) return false;
      block.pause();
    }
    return true;
  }
};

}  // namespace nearkv::cuda

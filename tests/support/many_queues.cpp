#include "support/many_queues.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace nearkv::test {

namespace {

// In the memory below the window of a BenchDevice, above its own rings.
constexpr std::uint64_t kRingsAt = 1 << 19;

}  // namespace

ManyQueues::ManyQueues(BenchDevice* bench, unsigned queues) : device_(&bench->device()) {
  Queue::Options options;
  options.window_base =
      static_cast<std::uint64_t>(bench->window().data() - device_->memory().data());
  options.window_bytes = bench->window().size();
  for (unsigned i = 0; i < queues; ++i) {
    options.index = i;
    options.rings_at = kRingsAt + i * Queue::ring_bytes(options.ring_entries);
    queues_.emplace_back();
    if (Queue::open(device_, options, &queues_.back()) != Status::kOk) {
      throw std::runtime_error("a queue cannot be opened");
    }
  }
}

void ManyQueues::submit_bytes(std::size_t queue, std::span<const std::byte> command) {
  std::array<std::byte, NKV_COMMAND_BYTES> bytes;
  std::ranges::copy(command, bytes.begin());
  std::uint16_t tag = 0;
  if (queues_.at(queue)->submit(bytes, &tag) != Status::kOk) {
    throw std::runtime_error("a ring is full");
  }
}

ManyRuns ManyQueues::finish() {
  ManyRuns runs;
  const std::uint64_t begin = device_->read_csr(NKV_REG_TICK_COUNT);
  for (const auto& queue : queues_) queue->ring();
  for (const auto& queue : queues_) {
    std::vector<nkv_completion>& completions = runs.completions.emplace_back();
    while (queue->in_flight() != 0) {
      std::array<nkv_completion, 8> done{};
      if (queue->wait(std::chrono::seconds(600)) != Status::kOk) {
        throw std::runtime_error("a command does not end");
      }
      const std::size_t count = queue->poll(done);
      for (std::size_t i = 0; i < count; ++i) {
        runs.failed = runs.failed || done.at(i).status != NKV_STATUS_OK;
        runs.bursts += std::uint64_t{done.at(i).stream_bursts} + done.at(i).refine_bursts +
                       done.at(i).exact_bursts + done.at(i).value_bursts;
      }
      completions.insert(completions.end(), done.begin(),
                         done.begin() + static_cast<std::ptrdiff_t>(count));
      runs.commands += count;
    }
  }
  runs.cycles = device_->read_csr(NKV_REG_TICK_COUNT) - begin;
  return runs;
}

}  // namespace nearkv::test

#include "event_stream.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

namespace nearkv::bench {

EventStream::EventStream(const std::vector<CachedChain>& fleet, double blocks_per_s,
                         std::uint64_t seed, Apply apply)
    : fleet_(fleet),
      apply_(std::move(apply)),
      thread_([this, blocks_per_s, seed] { run(blocks_per_s, seed); }) {}

EventStream::~EventStream() {
  is_over_ = true;
  thread_.join();
}

double EventStream::rate() const {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  return static_cast<double>(told_.load()) / took.count();
}

void EventStream::run(double blocks_per_s, std::uint64_t seed) {
  constexpr std::size_t kTail = 25;
  std::mt19937_64 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t told = 0; !is_over_;) {
    const CachedChain& chain = fleet_[random() % fleet_.size()];
    const auto tail = std::span(chain.hashes).last(std::min(kTail, chain.hashes.size()));
    apply_(chain, tail, false);
    apply_(chain, tail, true);
    told += 2 * tail.size();
    told_ = told;
    const std::chrono::duration<double> due(static_cast<double>(told) / blocks_per_s);
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(due));
  }
}

}  // namespace nearkv::bench

// Kernels on this machine's cores: each thread of a block is a thread here, and barriers are
// barriers, so that sanitizers see what a GPU's threads would do to each other.
#pragma once

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "block.hpp"

namespace nearkv::cuda {

/// What the threads of a block share.
struct Team {
  explicit Team(const Grid& grid)
      : words((grid.shared_bytes + sizeof(Words4) - 1) / sizeof(Words4)), barrier(kThreads) {}

  std::vector<Words4> words;
  std::barrier<> barrier;
};

/// A thread's view of its block.
class HostBlock {
 public:
  HostBlock(unsigned thread, Team* team) : thread_(thread), team_(team) {}

  [[nodiscard]] unsigned thread() const { return thread_; }
  [[nodiscard]] unsigned index() const { return index_; }
  void sync() const { team_->barrier.arrive_and_wait(); }
  [[nodiscard]] std::byte* shared() const {
    return reinterpret_cast<std::byte*>(team_->words.data());
  }

  /// Comes to a block whose memory holds what no kernel may rely on: NaN in every word.
  void enter(unsigned index) {
    sync();
    if (thread_ == 0 && !team_->words.empty()) {
      std::memset(shared(), 0xFF, team_->words.size() * sizeof(Words4));
    }
    index_ = index;
    sync();
  }

 private:
  unsigned thread_;
  Team* team_;
  unsigned index_ = 0;
};

/// Runs a grid, one block after the other.
template <typename Kernel>
void run_grid(const Kernel& kernel, const Grid& grid) {
  Team team(grid);
  const auto blocks = static_cast<unsigned>(grid.blocks);
  const auto work = [&](unsigned thread) {
    HostBlock block(thread, &team);
    for (unsigned index = 0; index < blocks; ++index) {
      block.enter(index);
      kernel(block);
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
}

}  // namespace nearkv::cuda

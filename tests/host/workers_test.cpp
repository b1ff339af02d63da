// A team whose threads others lend.
#include "device/workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace nearkv::test {
namespace {

/// Threads that help a team until the end.
class Helpers {
 public:
  Helpers(Workers* workers, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([workers](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (!workers->help()) std::this_thread::yield();
        }
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

TEST(LentWorkers, ShareOutAllWorkOnceAmongAsManyAsThereIsRoomFor) {
  constexpr std::size_t kCount = 1003;
  Workers workers({.are_lent = true});
  EXPECT_EQ(workers.size(), 1U);
  const Helpers helpers(&workers, 5);
  for (const unsigned members : {3U, 1U, 6U}) {
    workers.admit(members);
    std::vector<std::atomic<int>> done(kCount);
    std::vector<std::atomic<int>> inside(members);
    std::atomic<int> collisions{0};
    for (int round = 0; round < 200; ++round) {
      workers.for_each(kCount, 10, [&](unsigned member, std::size_t begin, std::size_t end) {
        ASSERT_LT(member, members);
        if (inside[member].fetch_add(1) != 0) ++collisions;
        for (std::size_t i = begin; i < end; ++i) ++done[i];
        --inside[member];
      });
    }
    EXPECT_EQ(collisions, 0);
    for (const std::atomic<int>& count : done) ASSERT_EQ(count, 200);
  }
}

TEST(LentWorkers, WorkBesideTheCaller) {
  Workers workers({.are_lent = true});
  workers.admit(2);
  const Helpers helpers(&workers, 1);
  // The caller's piece ends once another member has begun the other one.
  std::atomic<bool> has_helper{false};
  workers.for_each(2, 1, [&](unsigned member, std::size_t, std::size_t) {
    if (member != 0) has_helper = true;
    while (!has_helper) std::this_thread::yield();
  });
  EXPECT_TRUE(has_helper);
}

TEST(LentWorkers, HaveNothingToHelpWithBetweenWorks) {
  Workers workers({.are_lent = true});
  workers.admit(2);
  EXPECT_FALSE(workers.help());
  workers.for_each(100, 1, [](unsigned, std::size_t, std::size_t) {});
  EXPECT_FALSE(workers.help());
}

TEST(LentWorkers, ThrowWhatAHelperThrows) {
  Workers workers({.are_lent = true});
  workers.admit(2);
  const Helpers helpers(&workers, 1);
  std::atomic<bool> has_thrown{false};
  const auto work = [&](unsigned member, std::size_t, std::size_t) {
    if (member != 0) {
      has_thrown = true;
      throw std::runtime_error("no");
    }
    while (!has_thrown) std::this_thread::yield();
  };
  EXPECT_THROW(workers.for_each(2, 1, work), std::runtime_error);
  std::atomic<std::size_t> done{0};
  workers.for_each(50, 1,
                   [&](unsigned, std::size_t begin, std::size_t end) { done += end - begin; });
  EXPECT_EQ(done, 50U);
}

}  // namespace
}  // namespace nearkv::test

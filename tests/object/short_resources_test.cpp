// Stores of a process that runs short of threads, descriptors or memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "support/in_child.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

constexpr const char* kUri = "cpu:?memory=16MiB";

/// In a child: a store is refused with a reason.
void expect_refused(const ObjectStore::Options& options) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  expect(ObjectStore::create(kUri, options, &store, &reason) == Status::kIoError, "it is refused");
  expect(store == nullptr, "there is no store");
  expect(!reason.empty(), "it says why");
}

/// In a child: a stack of two stores is refused with a reason.
void expect_stack_refused(std::vector<std::unique_ptr<ObjectStore>> tiers,
                          const StackOptions& options) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  expect(ObjectStore::stack(std::move(tiers), options, &store, &reason) == Status::kIoError,
         "a stack is refused");
  expect(store == nullptr, "there is no stack");
  // NOLINTNEXTLINE(bugprone-use-after-move): they stay where no stack is made of them.
  expect(tiers.size() == 2 && tiers[0] && tiers[1], "the tiers stay");
  expect(set(tiers[1].get(), 0, key_of(1), contents(1, 10)) == Status::kBadArgument, "they work");
  expect(!reason.empty(), "it says why there is no stack");
}

std::vector<std::unique_ptr<ObjectStore>> tiers_in_child() {
  std::vector<std::unique_ptr<ObjectStore>> tiers(2);
  for (auto& tier : tiers) {
    expect(ObjectStore::create(kUri, {}, &tier) == Status::kOk, "there is a tier");
  }
  return tiers;
}

TEST(ShortResourcesTest, WithoutThreadsForAllWorkersThereIsNoStore) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "TSan ends a process that has no room for what it keeps of a thread";
#endif
#endif
  in_child([] {
    auto tiers = tiers_in_child();
    // Room for the stacks of some threads.
    std::size_t mapped_pages = 0;
    std::ifstream("/proc/self/statm") >> mapped_pages;
    const std::size_t bytes =
        mapped_pages * static_cast<std::size_t>(::getpagesize()) + (128 << 20);
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return kCannot;
    ObjectStore::Options options;
    options.workers = 2000;
    expect_refused(options);
    StackOptions stack;
    stack.workers = 2000;
    expect_stack_refused(std::move(tiers), stack);
    std::unique_ptr<ObjectStore> store;
    expect(ObjectStore::create(kUri, {}, &store) == Status::kOk, "a smaller one is there");
    return 0;
  });
}

TEST(ShortResourcesTest, WithoutADescriptorForItsEventsThereIsNoStore) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  GTEST_SKIP() << "UBSan looks at an object's type through a pipe, which needs a descriptor";
#endif
#endif
  in_child([] {
    auto tiers = tiers_in_child();
    const rlimit limit{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return kCannot;
    expect_refused({});
    expect_stack_refused(std::move(tiers), {});
    return 0;
  });
}

TEST(ShortResourcesTest, AMoverThatRunsOutOfMemoryTriesAgain) {
  std::atomic<bool> has_failed{false};
  ObjectStore::Options options;
  options.defragment_above = 0;
  options.clock = [&has_failed, test = std::this_thread::get_id()] {
    // Of those who ask for the time, only the mover is not the test.
    if (std::this_thread::get_id() != test && !has_failed.exchange(true)) throw std::bad_alloc();
    return std::chrono::system_clock::now();
  };
  std::vector<std::unique_ptr<ObjectStore>> tiers(2);
  ASSERT_EQ(ObjectStore::create("cpu:?memory=8MiB", options, &tiers[0]), Status::kOk);
  ASSERT_EQ(ObjectStore::create("cpu:?memory=64MiB", {}, &tiers[1]), Status::kOk);
  std::unique_ptr<ObjectStore> stack;
  ASSERT_EQ(ObjectStore::stack(std::move(tiers), {}, &stack), Status::kOk);
  std::uint32_t space = 0;
  ASSERT_EQ(stack->open_namespace({}, &space), Status::kOk);
  for (std::uint64_t i = 0; i < 30; ++i) {
    ASSERT_EQ(set(stack.get(), space, key_of(i), contents(i, 500'000)), Status::kOk);
  }
  EXPECT_TRUE(has_failed);
  EXPECT_GT(stack->stats().demotions, 10U);
}

}  // namespace
}  // namespace nearkv::test

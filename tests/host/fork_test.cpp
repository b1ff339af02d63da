// What a process that fork() made may do with what its parent opened: nothing, and at once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <vector>

#include "nearkv/object_store.hpp"
#include "nearkv/pool.hpp"
#include "nearkv/queue.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

/// Runs it in a forked child, which a signal ends after a while; whether it was true there.
bool holds_in_child(const std::function<bool()>& claim) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(claim() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkTest, AStoreRefusesTheChildAndGoesOnInTheParent) {
  const TemporaryFile file("forked");
  const std::string uri = "cpu:" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace({}, &space), Status::kOk);
  EXPECT_TRUE(holds_in_child([&] {
    JobId id = 0;
    std::uint32_t again = 0;
    JobResult result;
    return store->submit({}, &id) == Status::kForked &&
           store->wait(0, std::chrono::seconds(60), &result) == Status::kForked &&
           store->open_namespace({}, &again) == Status::kForked && store->namespaces().empty();
  }));
  EXPECT_TRUE(holds_in_child([&] {
    store.reset();  // Joins no thread, for there is none.
    return true;
  }));
  EXPECT_EQ(store->namespaces().size(), 1U);
}

TEST(ForkTest, AChildHoldsNoPoolForItsParent) {
  const TemporaryFile file("forked");
  const std::string uri = "cpu:" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(end[1]);
    char none = 0;
    (void)::read(end[0], &none, 1);
    ::_exit(0);
  }
  std::string reason;
  std::unique_ptr<ObjectStore> second;
  EXPECT_EQ(ObjectStore::open(uri, {}, &second), Status::kBusy) << "the parent has it yet";
  store.reset();
  EXPECT_EQ(ObjectStore::open(uri, {}, &second, &reason), Status::kOk) << reason;
  ::close(end[1]);
  ::waitpid(child, nullptr, 0);
}

TEST(ForkTest, AChildMayOpenTheSamePoolWhenItsParentHasClosedIt) {
  const TemporaryFile file("forked");
  const std::string uri = "cpu:" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  EXPECT_TRUE(holds_in_child([&] {
    std::unique_ptr<ObjectStore> mine;
    return ObjectStore::open(uri, {}, &mine) == Status::kBusy;
  }));
  store.reset();
  EXPECT_TRUE(holds_in_child([&] {
    std::unique_ptr<ObjectStore> mine;
    return ObjectStore::open(uri, {}, &mine) == Status::kOk && mine->namespaces().empty();
  }));
}

TEST(ForkTest, APoolAndAQueueRefuseTheChildAndGoOnInTheParent) {
  std::unique_ptr<Device> opened;
  ASSERT_EQ(open_device("cpu:?memory=64MiB", &opened), Status::kOk);
  const std::shared_ptr<Device> device = std::move(opened);
  Pool::Options options;
  options.shape.layers = 1;
  options.shape.kv_heads = 1;
  options.shape.head_dim = 64;
  std::unique_ptr<Pool> pool;
  std::string reason;
  ASSERT_EQ(Pool::create(device, options, &pool, &reason), Status::kOk) << reason;
  ASSERT_EQ(pool->create_sequence(1), Status::kOk);
  EXPECT_TRUE(holds_in_child([&] {
    const bool refused = pool->create_sequence(2) == Status::kForked &&
                         pool->attend({}, {}) == Status::kForked && device->is_gone();
    pool.reset();
    return refused;
  }));
  EXPECT_EQ(pool->create_sequence(1), Status::kExists);
  EXPECT_EQ(pool->create_sequence(2), Status::kOk);
  EXPECT_FALSE(device->is_gone());
}

}  // namespace
}  // namespace nearkv::test

// A device works on the cores of its process, whatever the thread that opens it is bound to.
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nearkv/device.hpp"

namespace nearkv::test {
namespace {

std::vector<int> cores_of(const cpu_set_t& set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

void bind_to(const cpu_set_t& set) { EXPECT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0); }

/// All threads of this process: a sanitizer's too.
void bind_all_to(const cpu_set_t& set) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(task.path().filename().string());
    EXPECT_EQ(::sched_setaffinity(thread, sizeof(set), &set), 0);
  }
}

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

std::vector<int> cores_of_device(const std::string& uri) {
  std::unique_ptr<Device> device;
  std::string reason;
  EXPECT_EQ(open_device(uri, &device, &reason), Status::kOk) << reason;
  return device == nullptr ? std::vector<int>() : device->cores();
}

class CoresTest : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.size() < 2) GTEST_SKIP() << "this process may use one core only";
  }
  void TearDown() override { bind_all_to(before_); }

  const cpu_set_t before_ = affinity();
  const std::vector<int> all_ = cores_of(before_);
};

TEST_F(CoresTest, AreThoseThatOtherThreadsAreBoundTo) {
  // As an OpenMP runtime does it: the calling thread on one core, the rest of its team elsewhere.
  std::latch is_alone(1);
  std::latch is_bound(1);
  std::latch is_over(1);
  std::thread other([&] {
    is_alone.wait();
    bind_to(only(all_[1]));
    is_bound.count_down();
    is_over.wait();
  });
  bind_all_to(only(all_[0]));
  is_alone.count_down();
  is_bound.wait();
  EXPECT_EQ(cores_of_device("cpu:?memory=1MiB"), (std::vector<int>{all_[0], all_[1]}));
  is_over.count_down();
  other.join();
}

TEST_F(CoresTest, AreNoOthersThanTheProcessMayUse) {
  bind_all_to(only(all_[1]));
  EXPECT_EQ(cores_of_device("cpu:?memory=1MiB"), std::vector<int>{all_[1]});
}

TEST_F(CoresTest, AreAsManyAsThereAreWorkers) {
  EXPECT_EQ(cores_of_device("cpu:?memory=1MiB&threads=1"), std::vector<int>{all_[0]});
  EXPECT_EQ(cores_of_device("cpu:?memory=1MiB&threads=1000"), all_);
}

}  // namespace
}  // namespace nearkv::test

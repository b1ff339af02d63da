// No room: a pool filled to its last grain, and a file system that has less than it promised.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "nearkv/object_store.hpp"
#include "support/fault_report.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kGrain = NKV_OBJECT_GRAIN_BYTES;

/// One to a few grains, so that the last ones are found too.
std::size_t bytes_of_object(std::uint64_t object) { return kGrain * (1 + object % 5) - object % 7; }

/// Objects that a store has acknowledged, by their numbers.
std::uint64_t lost_of(ObjectStore* store, std::uint32_t space,
                      const std::vector<std::uint64_t>& objects) {
  std::uint64_t lost = 0;
  for (const std::uint64_t object : objects) {
    Bytes found;
    const Status status = get(store, space, key_of(object), &found);
    if (status != Status::kOk || found != contents(object, bytes_of_object(object))) ++lost;
  }
  return lost;
}

class FullPoolTest : public testing::TestWithParam<std::string> {
 protected:
  void make(std::chrono::milliseconds patience) {
    const std::string uri = GetParam() == "file" ? "file:" + file_.path().string() + "?memory=8MiB"
                                                 : "cpu:?memory=8MiB";
    ObjectStore::Options options;
    options.max_objects = 4096;
    options.patience = patience;
    std::string reason;
    ASSERT_EQ(ObjectStore::create(uri, options, &store_, &reason), Status::kOk) << reason;
    Namespace name;
    name.model = "model";
    ASSERT_EQ(store_->open_namespace(name, &space_), Status::kOk);
  }

  /// Sets and leases an object.
  Status keep(std::uint64_t object, std::size_t bytes, LeaseId* lease) {
    const Bytes key = key_of(object);
    const Status stored = set(store_.get(), space_, key, contents(object, bytes));
    if (stored != Status::kOk) return stored;
    const Key keys[] = {key};
    Status status = Status::kOk;
    *lease = store_->pin(space_, keys, std::chrono::hours(1), std::span(&status, 1));
    return status;
  }

  /// Until not one grain is free.
  void fill() {
    Status status = Status::kOk;
    for (std::uint64_t object = 0; status == Status::kOk; ++object) {
      LeaseId lease = 0;
      status = keep(object, bytes_of_object(object), &lease);
      if (status != Status::kOk) break;
      kept_.push_back(object);
      leases_.push_back(lease);
    }
    ASSERT_EQ(status, Status::kPoolFull);
    for (std::uint64_t object = 0; store_->stats().used_bytes < store_->stats().total_bytes;
         ++object) {
      const std::uint64_t small = object * 5;  // One grain each.
      if (small < kept_.size()) continue;
      LeaseId lease = 0;
      ASSERT_EQ(keep(small, bytes_of_object(small), &lease), Status::kOk);
      kept_.push_back(small);
      leases_.push_back(lease);
    }
  }

  TemporaryFile file_{"full_pool"};
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
  std::vector<std::uint64_t> kept_;
  std::vector<LeaseId> leases_;
};

INSTANTIATE_TEST_SUITE_P(In, FullPoolTest, testing::Values("memory", "file"),
                         [](const auto& place) { return place.param; });

TEST_P(FullPoolTest, FilledToTheLastGrainItRefusesAndLosesNothing) {
  make(std::chrono::milliseconds(0));
  fill();
  if (HasFatalFailure()) return;
  constexpr std::uint64_t kTries = 50;
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    Job job;
    job.overwrite = i % 2 == 1;
    const std::uint64_t object = job.overwrite ? kept_[i] : 100000 + i;
    const Status status =
        set(store_.get(), space_, key_of(object), contents(object + 1, bytes_of_object(i)), job);
    refused += status == Status::kPoolFull ? 1 : 0;
  }
  EXPECT_EQ(refused, kTries);
  EXPECT_EQ(store_->stats().evictions, 0U);
  EXPECT_EQ(store_->stats().used_bytes, store_->stats().total_bytes);
  const std::uint64_t lost = lost_of(store_.get(), space_, kept_);
  EXPECT_EQ(lost, 0U);
  report_fault("full pool, " + GetParam(), kTries, lost == 0 ? refused : 0, lost);
  // Leases end, and it goes on.
  for (const LeaseId lease : leases_) EXPECT_EQ(store_->unpin(lease), Status::kOk);
  EXPECT_EQ(set(store_.get(), space_, key_of(200000), contents(1, 1 << 20)), Status::kOk);
}

TEST_P(FullPoolTest, APatientSetWaitsForALeaseToEnd) {
  make(std::chrono::minutes(1));
  // The last set of fill() would wait for as long: here one object takes all but what it cannot.
  const std::uint64_t total_bytes = store_->stats().total_bytes;
  LeaseId lease = 0;
  ASSERT_EQ(keep(1, total_bytes, &lease), Status::kOk);
  ASSERT_EQ(store_->stats().used_bytes, total_bytes);
  std::atomic<bool> over{false};
  Status status = Status::kBusy;
  std::thread writer([&] {
    status = set(store_.get(), space_, key_of(2), contents(2, kGrain));
    over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(over) << "it did not wait";
  EXPECT_TRUE(exists(store_.get(), space_, key_of(1)));
  EXPECT_EQ(store_->unpin(lease), Status::kOk);
  writer.join();
  EXPECT_EQ(status, Status::kOk);
  EXPECT_TRUE(exists(store_.get(), space_, key_of(2)));
}

/// A file system of its own, gone with the test.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(const std::string& bytes) : folder_("small_file_system") {
    std::filesystem::create_directory(folder_.path());
    mounted_ =
        ::mount("nearkv_test", folder_.path().c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
    if (!mounted_) reason_ = std::strerror(errno);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }

  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string path() const { return (folder_.path() / "pool").string(); }

 private:
  TemporaryFile folder_;
  bool mounted_ = false;
  std::string reason_;
};

TEST(NoSpaceTest, APoolThatTheFileSystemHasNoRoomForIsNotMade) {
  const SmallFileSystem small("16m");
  if (!small.mounted()) GTEST_SKIP() << "no file system can be mounted here: " << small.reason();
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(ObjectStore::create("file:" + small.path() + "?memory=64MiB", {}, &store, &reason),
            Status::kIoError);
  EXPECT_NE(reason.find("cannot reserve"), std::string::npos) << reason;
}

TEST(NoSpaceTest, WhatWasAcknowledgedStaysWhenRoomIsTakenAwayUnderThePool) {
  const SmallFileSystem small("24m");
  if (!small.mounted()) GTEST_SKIP() << "no file system can be mounted here: " << small.reason();
  constexpr std::uint64_t kFileBytes = 16 << 20;
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  ObjectStore::Options options;
  options.defragment_above = 0;
  options.max_objects = 4096;
  ASSERT_EQ(ObjectStore::create("file:" + small.path() + "?memory=16MiB", options, &store, &reason),
            Status::kOk)
      << reason;
  Namespace name;
  name.model = "model";
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(name, &space), Status::kOk);
  std::vector<std::uint64_t> kept;
  for (std::uint64_t object = 0; object < 200; ++object) {
    ASSERT_EQ(set(store.get(), space, key_of(object), contents(object, bytes_of_object(object))),
              Status::kOk);
    kept.push_back(object);
  }
  // Somebody punches what no object holds out of the file, and another file takes the room.
  const std::uint64_t free_from = kFileBytes - (4 << 20);
  const std::uint64_t punched = free_from - (4 << 20);
  const int file = ::open(small.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(punched), 8 << 20),
            0);
  ::close(file);
  {
    std::ofstream other(small.path() + ".other", std::ios::binary);
    const std::vector<char> bytes(1 << 20, 'x');
    while (other.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    }
  }
  std::uint64_t tried = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t object = 1000; object < 3000 && store->stats().evictions == 0; ++object) {
    const Status status =
        set(store.get(), space, key_of(object), contents(object, bytes_of_object(object)));
    ++tried;
    if (status == Status::kOk) {
      kept.push_back(object);
    } else {
      EXPECT_EQ(status, Status::kPoolFull) << message(status);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U) << "the file system had room";
  const std::uint64_t lost = lost_of(store.get(), space, kept);
  EXPECT_EQ(lost, 0U);
  report_fault("no space on NVMe", tried, lost == 0 ? tried : 0, lost);
}

}  // namespace
}  // namespace nearkv::test

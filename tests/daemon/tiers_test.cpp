// A daemon over files past the page cache, sealed ones too, and over tiers.
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "server_fixture.hpp"
#include "support/daemon_process.hpp"
#include "support/objects.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kObjectBytes = 256 << 10;

std::string file_pool(const TemporaryFolder& folder) {
  return "[pool]\ndevice = \"file\"\npath = \"" + folder.file("pool") + "\"\nsize = \"64MiB\"\n";
}

std::string two_tiers(const TemporaryFolder& folder) {
  return "[[pool]]\nsize = \"16MiB\"\n[[pool]]\ndevice = \"file\"\npath = \"" +
         folder.file("pool") + "\"\nsize = \"128MiB\"\n[stack]\npromote_after = 2\n";
}

/// Where objects that are on disk survive the daemon.
std::string two_lasting_tiers(const TemporaryFolder& folder) {
  return "[[pool]]\npath = \"" + folder.file("upper") +
         "\"\nhuge_pages = false\nsize = \"16MiB\"\n[[pool]]\ndevice = \"file\"\npath = \"" +
         folder.file("pool") + "\"\nsize = \"128MiB\"\n";
}

/// Objects are encrypted on their way to the file.
std::string sealed_pool(const TemporaryFolder& folder) {
  std::ofstream(folder.file("key"), std::ios::binary) << std::string(32, 'k');
  ::chmod(folder.file("key").c_str(), 0600);
  return file_pool(folder) + "seal_key_file = \"" + folder.file("key") + "\"\n";
}

struct Served {
  explicit Served(const DaemonProcess::Pools& pools)
      : daemon("scrub_rate = \"1GiB\"", pools), store(connect_to(daemon.socket(), 64 << 20)) {
    EXPECT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  }

  void set_all(std::uint64_t objects) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      ASSERT_EQ(set(store.get(), space, key_of(i), contents(i, kObjectBytes)), Status::kOk) << i;
    }
  }
  void expect_all(std::uint64_t objects) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      Bytes found;
      ASSERT_EQ(get(store.get(), space, key_of(i), &found), Status::kOk) << i;
      ASSERT_EQ(found, contents(i, kObjectBytes)) << i;
    }
  }

  DaemonProcess daemon;
  std::unique_ptr<ObjectStore> store;
  std::uint32_t space = 0;
};

TEST(TiersTest, AFilePastThePageCacheKeepsAllOverKillsOfTheDaemon) {
  Served served(file_pool);
  served.set_all(100);
  for (int kill = 0; kill < 3; ++kill) {
    EXPECT_EQ(served.daemon.end(SIGKILL), -SIGKILL);
    served.daemon.start();
    served.expect_all(100);
  }
  VerifyProgress progress;
  ASSERT_EQ(served.store->verify(0, 16, &progress), Status::kOk);
  EXPECT_EQ(progress.damaged, 0U);
}

TEST(TiersTest, WhatIsSealedIsNotInTheFileAndComesBackAfterAKill) {
  Served served(sealed_pool);
  const std::string secret = "the prompt that no thief of the file may read";
  ASSERT_EQ(set(served.store.get(), served.space, key_of(1), bytes_of(secret)), Status::kOk);
  EXPECT_EQ(served.daemon.end(SIGKILL), -SIGKILL);
  std::ifstream file(served.daemon.pool(), std::ios::binary);
  const std::string medium((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(medium.find(secret), std::string::npos);
  served.daemon.start();
  Bytes found;
  ASSERT_EQ(get(served.store.get(), served.space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, bytes_of(secret));
}

TEST(TiersTest, AStackHoldsMoreThanItsFirstTierAndTellsOfEach) {
  Served served(two_tiers);
  served.set_all(256);  // 64 MiB above 16.
  served.expect_all(256);
  const std::vector<ObjectStoreStats> tiers = served.store->tier_stats();
  ASSERT_EQ(tiers.size(), 2U);
  EXPECT_LT(tiers[0].total_bytes, tiers[1].total_bytes);
  EXPECT_GT(tiers[1].objects, 150U);
  EXPECT_GT(served.store->stats().demotions, 150U);
  EXPECT_FALSE(served.store->coldest(1 << 20).empty());
}

TEST(TiersTest, AStackOfFilesKeepsAllOverKillsOfTheDaemon) {
  Served served(two_lasting_tiers);
  served.set_all(200);
  for (int kill = 0; kill < 3; ++kill) {
    EXPECT_EQ(served.daemon.end(SIGKILL), -SIGKILL);
    served.daemon.start();
    served.expect_all(200);
  }
}

TEST(TiersTest, WhatIsFoundBelowOftenComesUpWhoeverWritesToItsTarget) {
  Served served(two_tiers);
  served.set_all(256);
  std::span<std::byte> memory;
  ASSERT_EQ(served.store->allocate(kObjectBytes, &memory), Status::kOk);
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    Random random = case_random(1);
    while (!stop) {
      std::atomic_ref(reinterpret_cast<std::uint8_t&>(memory[pick(random, 0, kObjectBytes - 1)]))
          .store(static_cast<std::uint8_t>(random()), std::memory_order_relaxed);
    }
  });
  const std::span<std::byte> target = memory;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Bytes key = key_of(i);
    ObjectItem item;
    item.key = key;
    item.target = std::span(&target, 1);
    Job job;
    job.namespace_number = served.space;
    job.items = std::span(&item, 1);
    JobResult result;
    for (int times = 0; times < 4; ++times) {
      ASSERT_EQ(served.store->run(job, &result), Status::kOk);
      ASSERT_EQ(result.items[0], Status::kOk);
    }
  }
  stop = true;
  changer.join();
  EXPECT_GT(served.store->stats().promotions, 0U);
  served.expect_all(60);
}

TEST(TiersTest, DataThatChangesWhileItGoesToAFileIsWhateverItWasButWhole) {
  Served served(file_pool);
  constexpr std::size_t kBytes = 100001;
  std::span<std::byte> memory;
  ASSERT_EQ(served.store->allocate(2 * kBytes, &memory), Status::kOk);
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    Random random = case_random(2);
    while (!stop) {
      std::atomic_ref(reinterpret_cast<std::uint8_t&>(memory[pick(random, 0, kBytes - 1)]))
          .store(static_cast<std::uint8_t>(random()), std::memory_order_relaxed);
    }
  });
  // In pieces that end anywhere, each of which is copied in its own way.
  const std::span<const std::byte> pieces[] = {memory.subspan(0, 77), memory.subspan(77, 50000),
                                               memory.subspan(50077, kBytes - 50077)};
  const std::span<std::byte> target = memory.subspan(kBytes, kBytes);
  const Bytes key = key_of(1);
  ObjectItem item;
  item.key = key;
  item.source = pieces;
  item.target = std::span(&target, 1);
  Job job;
  job.namespace_number = served.space;
  job.items = std::span(&item, 1);
  job.overwrite = true;
  JobResult result;
  for (int step = 0; step < 200; ++step) {
    for (const JobKind kind : {JobKind::kSet, JobKind::kGet}) {
      job.kind = kind;
      job.overwrite = kind == JobKind::kSet;
      ASSERT_EQ(served.store->run(job, &result), Status::kOk);
      ASSERT_EQ(result.items[0], Status::kOk) << step;
    }
  }
  stop = true;
  changer.join();
  EXPECT_EQ(served.store->stats().corruptions, 0U);
}

TEST(TiersTest, TwoDaemonsShareNoTier) {
  const DaemonProcess daemon("", two_lasting_tiers);
  const TemporaryFolder folder;
  ServerConfig config = small_config(folder);
  config.pools.emplace_back();
  config.pools[1].is_file = true;
  config.pools[1].path = daemon.pool();
  std::unique_ptr<Server> second;
  std::string reason;
  EXPECT_EQ(Server::start(config, &second, &reason), Status::kBusy) << reason;
}

}  // namespace
}  // namespace nearkv::test

// Memory that a client shares with its daemon: lent, registered, and carried.
#include <fcntl.h>

#include "server_fixture.hpp"
#include "support/objects.hpp"
#include "support/shared_pages.hpp"

namespace nearkv::test {
namespace {

class ClientMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    config_ = small_config(folder_);
    server_ = start_server(config_);
    store_ = connect_to(config_.socket.path, 8 << 20);
    ASSERT_EQ(store_->open_namespace(namespace_of(1), &space_), Status::kOk);
  }

  Status transfer(JobKind kind, std::uint64_t key, std::span<std::byte> memory) {
    const Bytes name = key_of(key);
    const std::span<const std::byte> source = memory;
    ObjectItem item;
    item.key = name;
    if (kind == JobKind::kSet) item.source = std::span(&source, 1);
    if (kind == JobKind::kGet) item.target = std::span(&memory, 1);
    Job job;
    job.kind = kind;
    return run_one(store_.get(), space_, item, job);
  }

  TemporaryFolder folder_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

TEST_F(ClientMemoryTest, LentMemoryCarriesObjectsBothWays) {
  std::span<std::byte> memory;
  ASSERT_EQ(store_->allocate(3 << 20, &memory), Status::kOk);
  const Bytes data = contents(1, memory.size());
  std::ranges::copy(data, memory.begin());
  ASSERT_EQ(transfer(JobKind::kSet, 1, memory), Status::kOk);
  std::ranges::fill(memory, std::byte{0});
  ASSERT_EQ(transfer(JobKind::kGet, 1, memory), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(memory, data));
  std::span<std::byte> more;
  EXPECT_EQ(store_->allocate(2 << 20, &more), Status::kOutOfMemory) << "half of 8 MiB is lent";
  EXPECT_EQ(store_->release(memory), Status::kOk);
  EXPECT_EQ(store_->allocate(2 << 20, &more), Status::kOk);
  Bytes own(100);
  EXPECT_EQ(store_->release(own), Status::kBadArgument);
}

TEST_F(ClientMemoryTest, RegisteredMemoryCarriesObjectsLargerThanTheWindow) {
  const SharedPages pages(20 << 20, F_SEAL_SHRINK);
  ASSERT_EQ(store_->register_memory(pages.memory, pages.fd.get(), 0), Status::kOk);
  const Bytes data = contents(2, pages.memory.size());
  std::ranges::copy(data, pages.memory.begin());
  ASSERT_EQ(transfer(JobKind::kSet, 1, pages.memory), Status::kOk);
  std::ranges::fill(pages.memory, std::byte{0});
  ASSERT_EQ(transfer(JobKind::kGet, 1, pages.memory), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(pages.memory, data));
  ASSERT_EQ(store_->unregister_memory(pages.memory), Status::kOk);
  EXPECT_EQ(store_->unregister_memory(pages.memory), Status::kNotFound);
  EXPECT_EQ(transfer(JobKind::kSet, 2, pages.memory), Status::kWindowTooSmall)
      << "it has to be carried now, and there is no room for that";
}

TEST_F(ClientMemoryTest, MemoryThatCouldShrinkUnderTheDaemonIsRefused) {
  const SharedPages loose(1 << 20, 0);
  EXPECT_EQ(store_->register_memory(loose.memory, loose.fd.get(), 0), Status::kBadArgument);
  const FileDescriptor file(
      ::open(folder_.file("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  EXPECT_EQ(store_->register_memory(loose.memory, file.get(), 0), Status::kBadArgument);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor read(ends[0]);
  const FileDescriptor write(ends[1]);
  EXPECT_EQ(store_->register_memory(loose.memory, read.get(), 0), Status::kBadArgument);
  const SharedPages sealed(1 << 20, F_SEAL_SHRINK);
  const std::span<std::byte> beyond(sealed.memory.data(), 2 << 20);
  EXPECT_EQ(store_->register_memory(beyond, sealed.fd.get(), 0), Status::kBadArgument);
  EXPECT_EQ(store_->register_memory(sealed.memory, sealed.fd.get(), 1), Status::kBadArgument);
  EXPECT_EQ(store_->register_memory(sealed.memory, sealed.fd.get(), ~std::uint64_t{4095}),
            Status::kBadArgument);
  EXPECT_EQ(transfer(JobKind::kSet, 1, loose.memory.first(1000)), Status::kOk)
      << "the connection goes on";
}

TEST_F(ClientMemoryTest, OnlySoManyRegionsAreTaken) {
  std::vector<std::unique_ptr<SharedPages>> all;
  Status status = Status::kOk;
  while (status == Status::kOk && all.size() <= NKV_DAEMON_MAX_REGIONS) {
    all.push_back(std::make_unique<SharedPages>(4096, F_SEAL_SHRINK));
    status = store_->register_memory(all.back()->memory, all.back()->fd.get(), 0);
  }
  EXPECT_EQ(status, Status::kQueueFull);
  EXPECT_EQ(all.size(), std::size_t{NKV_DAEMON_MAX_REGIONS - 1});
  // With all of them, and its data area, it comes back to another daemon.
  server_.reset();
  server_ = start_server(config_);
  EXPECT_EQ(transfer(JobKind::kSet, 1, all.front()->memory), Status::kOk);
}

TEST_F(ClientMemoryTest, OnlyWhatWasLentCanBeReleasedAndOnlyOnce) {
  std::span<std::byte> first;
  std::span<std::byte> second;
  ASSERT_EQ(store_->allocate(8192, &first), Status::kOk);
  ASSERT_EQ(store_->allocate(8192, &second), Status::kOk);
  EXPECT_EQ(store_->release(first.first(4096)), Status::kBadArgument);
  EXPECT_EQ(store_->release(first.subspan(4096)), Status::kBadArgument);
  EXPECT_EQ(store_->release({first.data() + 4096, 8192}), Status::kBadArgument);
  EXPECT_EQ(store_->release({first.data(), 16384}), Status::kBadArgument);
  EXPECT_EQ(store_->release({first.data(), 0}), Status::kBadArgument);
  EXPECT_EQ(store_->release(first), Status::kOk);
  EXPECT_EQ(store_->release(first), Status::kBadArgument);
  // Nothing of it is lent twice.
  std::span<std::byte> rest;
  EXPECT_EQ(store_->allocate(4 << 20, &rest), Status::kOutOfMemory);
  EXPECT_EQ(store_->release(second), Status::kOk);
  EXPECT_EQ(store_->allocate(4 << 20, &rest), Status::kOk);
}

TEST_F(ClientMemoryTest, BatchesLargerThanTheWindowGoThroughItInPieces) {
  constexpr std::size_t kObjects = 40;
  constexpr std::size_t kBytes = 700001;  // Together 27 MiB through 4.
  const std::vector<Bytes> data = contents_of(kObjects, kBytes);
  Batch batch(kObjects);
  Job job = batch.set_to(space_, data);
  job.chain = true;
  JobId id = 0;
  ASSERT_EQ(store_->submit(job, &id), Status::kOk);
  JobResult result;
  ASSERT_EQ(store_->wait(id, std::chrono::seconds(60), &result), Status::kOk);
  ASSERT_TRUE(result.all_ok());
  EXPECT_EQ(store_->match_prefix(space_, batch.keys), kObjects) << "pieces of one chain";

  std::vector<Bytes> found(kObjects, Bytes(kBytes));
  ASSERT_EQ(store_->run(batch.get_into(space_, found), &result), Status::kOk);
  ASSERT_TRUE(result.all_ok());
  EXPECT_EQ(found, data);
}

TEST_F(ClientMemoryTest, SegmentsInAndOutsideTheWindowMakeOneObject) {
  std::span<std::byte> lent;
  ASSERT_EQ(store_->allocate(10000, &lent), Status::kOk);
  const Bytes data = contents(9, 30000);
  Bytes front(data.begin(), data.begin() + 7001);
  std::copy_n(data.begin() + 7001, 9001, lent.begin());
  Bytes back(data.begin() + 16002, data.end());
  const std::array<std::span<const std::byte>, 4> source = {
      std::span<const std::byte>(front).first(1), std::span<const std::byte>(front).subspan(1),
      std::span<const std::byte>(lent).first(9001), std::span<const std::byte>(back)};
  const Bytes key = key_of(1);
  ObjectItem item;
  item.key = key;
  item.source = source;
  Job setting;
  setting.kind = JobKind::kSet;
  ASSERT_EQ(run_one(store_.get(), space_, item, setting), Status::kOk);
  Bytes head(12345);
  std::ranges::fill(lent, std::byte{0});
  Bytes tail(20000);
  const std::array<std::span<std::byte>, 3> target = {std::span(head), lent.first(5000),
                                                      std::span(tail)};
  item.source = {};
  item.target = target;
  std::uint32_t bytes = 0;
  ASSERT_EQ(run_one(store_.get(), space_, item, {}, &bytes), Status::kOk);
  EXPECT_EQ(bytes, data.size());
  EXPECT_TRUE(std::equal(head.begin(), head.end(), data.begin()));
  EXPECT_TRUE(std::equal(lent.begin(), lent.begin() + 5000, data.begin() + 12345));
  EXPECT_TRUE(std::equal(data.begin() + 17345, data.end(), tail.begin()));
}

}  // namespace
}  // namespace nearkv::test

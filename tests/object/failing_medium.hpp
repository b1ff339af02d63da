// A store over memory of which a test says when and how it fails.
#ifndef NEARKV_TESTS_OBJECT_FAILING_MEDIUM_HPP_
#define NEARKV_TESTS_OBJECT_FAILING_MEDIUM_HPP_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "object/local_store.hpp"
#include "object/memory_payload.hpp"
#include "pool/pool_memory.hpp"
#include "support/objects.hpp"

namespace nearkv::test {

enum class Access : std::uint8_t { kRead, kWrite, kWipe };

/// How an access to extents ends; kOk: as it would without the test.
using Fate = std::function<Status(Access, std::span<const Extent>)>;

/// A fate of one kind of access; the others go well.
inline Fate all(Access which, Status fate) {
  return
      [=](Access access, std::span<const Extent>) { return access == which ? fate : Status::kOk; };
}

/// Payload in memory, unless it is fated otherwise.
class FailingPayload final : public Payload {
 public:
  FailingPayload(std::span<std::byte> memory, Persistence* persistence, const Fate* fate)
      : memory_(memory, persistence), fate_(fate) {}

  Status write(std::span<const Extent> extents, std::uint64_t offset,
               std::span<const PayloadPiece> pieces) override {
    const Status status = fate(Access::kWrite, extents);
    return status == Status::kOk ? memory_.write(extents, offset, pieces) : status;
  }
  Status wipe(std::span<const Extent> extents) override {
    const Status status = fate(Access::kWipe, extents);
    return status == Status::kOk ? memory_.wipe(extents) : status;
  }
  Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
              ByteSink* sink, std::uint32_t* crc) override {
    const Status status = fate(Access::kRead, extents);
    return status == Status::kOk ? memory_.read(extents, offset, bytes, sink, crc) : status;
  }

 private:
  [[nodiscard]] Status fate(Access access, std::span<const Extent> extents) const {
    return *fate_ ? (*fate_)(access, extents) : Status::kOk;
  }

  MemoryPayload memory_;
  const Fate* fate_;
};

/// Memory that a process keeps, of which pages can go bad.
class FailingMemory {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  explicit FailingMemory(std::size_t bytes) {
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::runtime_error("no memory");
    bytes_ = {static_cast<std::byte*>(address), bytes};
  }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
  ~FailingMemory() { ::munmap(bytes_.data(), bytes_.size()); }

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  /// From now on whoever touches the page that holds byte `at` gets a SIGBUS.
  void poison_page(std::size_t at) const {
    const int empty = ::memfd_create("nearkv_poison", MFD_CLOEXEC);
    void* const place = bytes_.data() + at / kPageBytes * kPageBytes;
    void* const mapped =
        ::mmap(place, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
    ::close(empty);
    if (mapped != place) throw std::runtime_error("the page cannot be replaced");
  }

 private:
  std::span<std::byte> bytes_;
};

/// A store of 16 MiB with a namespace of tenant 1.
class FailingMediumTest : public testing::Test {
 protected:
  void create(std::uint32_t max_objects, Durability durability = Durability::kProcess) {
    Pool::Options options;
    options.shape.layers = 0;
    options.max_objects = max_objects;
    options.max_namespaces = 4;
    PoolPlan plan;
    std::string reason;
    ASSERT_EQ(PoolPlan::make(memory_.bytes().size(), options, &plan, &reason), Status::kOk)
        << reason;
    durability_ = durability;
    ASSERT_EQ(PoolMemory::create(source(), plan, &pool_), Status::kOk);
    ASSERT_EQ(open(), Status::kOk);
  }

  /// Ends the store and takes it up again.
  Status reopen() {
    close();
    std::string reason;
    const Status status = PoolMemory::open(source(), &pool_, &reason);
    return status == Status::kOk ? open() : status;
  }

  void close() {
    store_.reset();
    pool_.reset();
  }

  Status set(std::uint64_t key, const Bytes& data, const Job& job = {}) {
    return test::set(store_.get(), space_, key_of(key), data, job);
  }
  Status erase(std::uint64_t key) { return test::erase(store_.get(), space_, key_of(key)); }
  [[nodiscard]] bool exists(std::uint64_t key) {
    return test::exists(store_.get(), space_, key_of(key));
  }

  void expect_object(std::uint64_t key, const Bytes& data) {
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(key), &found), Status::kOk) << key;
    EXPECT_TRUE(found == data) << key;
  }

  /// Fills the store with objects of one grain, from key 0 on, and takes every second one away:
  /// what comes has a list of its extents. Gives how many there were.
  std::uint64_t make_fragmented() {
    Job keep;
    keep.evict = false;
    std::uint64_t count = 0;
    while (set(count, contents(count, NKV_OBJECT_GRAIN_BYTES), keep) == Status::kOk) ++count;
    for (std::uint64_t i = 0; i < count; i += 2) EXPECT_EQ(erase(i), Status::kOk);
    return count;
  }

  FailingMemory memory_{16 << 20};
  Fate fate_;
  std::shared_ptr<PoolMemory> pool_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;

 private:
  [[nodiscard]] PoolMemory::Source source() const {
    return {memory_.bytes(), nullptr, Persistence::make(durability_)};
  }

  Status open() {
    ObjectStore::Options options;
    options.defragment_above = 0;  // What moves when is the test's alone.
    auto payload = std::make_unique<FailingPayload>(memory_.bytes(), &pool_->persistence(), &fate_);
    std::string reason;
    const Status status = LocalStore::open(pool_, std::move(payload), options, &store_, &reason);
    if (status != Status::kOk) return status;
    Namespace name;
    name.tenant = 1;
    name.model = "model";
    return store_->open_namespace(name, &space_);
  }

  Durability durability_ = Durability::kProcess;
};

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_OBJECT_FAILING_MEDIUM_HPP_

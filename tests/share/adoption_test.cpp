// Taking over a dead host's log where the membership's answers are lost.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "share/mapped_memory.hpp"
#include "share/membership_oracle.hpp"
#include "share/sharing_host.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kExtents = 30;

/// Decides what it is asked for, and then its answer is lost, once.
class LossyMembership : public OracleMembership {
 public:
  using OracleMembership::OracleMembership;

  void lose_completion() { loses_ = true; }

  [[nodiscard]] Status complete(MembershipView* view) override {
    const Status status = OracleMembership::complete(view);
    return std::exchange(loses_, false) ? Status::kIoError : status;
  }

 private:
  bool loses_ = false;
};

class AdoptionTest : public testing::Test {
 protected:
  void SetUp() override {
    RegionShape shape;
    shape.hosts = 3;
    shape.extents = kExtents;
    shape.extent_bytes = 64;
    for (auto& memory : memories_) {
      ASSERT_EQ(MappedMemory::open(file_.path(), Region::bytes_of(shape), &memory), Status::kOk);
    }
    Region region;
    ASSERT_EQ(Region::create(*memories_[0], shape, &region), Status::kOk);
    for (std::uint16_t i = 0; i < 3; ++i) {
      members_[i] = std::make_unique<LossyMembership>(&oracle_, i, &random_, [] {}, [] {});
      members_[i]->set_calm(true);
      ASSERT_EQ(SharingHost::join(*memories_[i], *members_[i], i, &hosts_[i]), Status::kOk);
    }
    poll(50);
  }

  void poll(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (auto& host : hosts_) {
        if (host == nullptr) continue;
        ASSERT_EQ(host->poll(), Status::kOk);
      }
    }
  }

  TemporaryFile file_{"adoption"};
  std::unique_ptr<MappedMemory> memories_[3];
  MembershipOracle oracle_{3};
  Random random_{1};
  std::unique_ptr<LossyMembership> members_[3];
  std::unique_ptr<SharingHost> hosts_[3];
};

TEST_F(AdoptionTest, ACompletionWhoseAnswerIsLostHoldsAllTheSame) {
  const std::vector<std::byte> bytes(40, std::byte{1});
  ObjectId id;
  ASSERT_EQ(hosts_[0]->publish_mutable({1, 0}, bytes, &id), Status::kOk);
  Status reading = Status::kNotYet;
  for (int i = 0; i < 50 && reading != Status::kOk; ++i) {
    reading = hosts_[1]->acquire_read(id);
    poll(1);
  }
  ASSERT_EQ(reading, Status::kOk);

  ASSERT_EQ(oracle_.change([](MembershipView* view) { return transition::fence(view, 0); }),
            Status::kOk);
  hosts_[0].reset();
  SharingHost& heir = *hosts_[2];
  members_[2]->lose_completion();
  Status lost = Status::kOk;
  for (int i = 0; i < 5; ++i) {
    if (heir.has_orphans()) lost = heir.adopt();
    if (lost == Status::kIoError) break;
    ASSERT_EQ(heir.poll(), Status::kOk);
  }
  ASSERT_EQ(lost, Status::kIoError);
  // Host 1 has not acted on the death yet, and may still read what it had the right to.
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(heir.poll(), Status::kOk);
    ASSERT_EQ(heir.acquire_write(id, 40), Status::kNotYet);
  }
  Status writing = Status::kNotYet;
  for (int i = 0; i < 50 && writing != Status::kOk; ++i) {
    poll(1);
    writing = heir.acquire_write(id, 40);
  }
  EXPECT_EQ(writing, Status::kOk);
}

TEST_F(AdoptionTest, NoExtentIsLostWithTheAnswer) {
  ASSERT_EQ(oracle_.change([](MembershipView* view) { return transition::fence(view, 0); }),
            Status::kOk);
  hosts_[0].reset();
  members_[2]->lose_completion();
  for (int i = 0; i < 5; ++i) {
    poll(1);
    if (hosts_[2]->has_orphans()) (void)hosts_[2]->adopt();
  }
  ASSERT_EQ(oracle_.change([](MembershipView* view) {
    return transition::declare_quiet(view, 0, view->hosts[0].epoch);
  }),
            Status::kOk);
  poll(100);
  EXPECT_EQ(hosts_[1]->space().free_extents() + hosts_[2]->space().free_extents(), kExtents);
}

TEST_F(AdoptionTest, WhatIsLargerThanAllExtentsFindsNoRoom) {
  // Nobody reads it, as far as it goes.
  std::byte byte{};
  for (const std::uint64_t size : {(std::uint64_t{1} << 32) - 1, (std::uint64_t{1} << 32) - 63}) {
    ObjectId id;
    EXPECT_EQ(hosts_[0]->publish({2, 0}, std::span(&byte, size), &id), Status::kPoolFull) << size;
  }
}

}  // namespace
}  // namespace nearkv::test

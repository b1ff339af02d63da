// The changes of the membership, one by one.
#include "share/membership.hpp"

#include <gtest/gtest.h>

namespace nearkv::test {
namespace {

class MembershipTest : public testing::Test {
 protected:
  MembershipTest() { view_.hosts.resize(3); }

  void make_active(std::uint16_t host) {
    ASSERT_EQ(transition::join(&view_, host), Status::kOk);
    ASSERT_EQ(transition::activate(&view_, host, view_.hosts[host].epoch), Status::kOk);
  }

  MembershipView view_;
};

TEST_F(MembershipTest, EachIncarnationHasAnEpochOfItsOwn) {
  make_active(0);
  EXPECT_EQ(transition::join(&view_, 0), Status::kExists);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  ASSERT_EQ(transition::join(&view_, 0), Status::kOk);
  EXPECT_EQ(view_.hosts[0].epoch, 2U);
  EXPECT_FALSE(view_.is_live(0, 1));
  EXPECT_EQ(view_.revision, 4U);
}

TEST_F(MembershipTest, ANewIncarnationWritesBesideItsOrphanLog) {
  make_active(0);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  ASSERT_EQ(transition::join(&view_, 0), Status::kOk);
  EXPECT_NE(view_.hosts[0].area, view_.hosts[0].orphans[0].area);
  EXPECT_EQ(transition::activate(&view_, 0, 2), Status::kNotYet) << "its own log waits";
}

TEST_F(MembershipTest, WhoWasNeverActiveLeavesNothingBehind) {
  ASSERT_EQ(transition::join(&view_, 0), Status::kOk);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  EXPECT_FALSE(view_.has_orphans());
  EXPECT_EQ(transition::fence(&view_, 0), Status::kNotFound);
}

TEST_F(MembershipTest, OneHostTakesAllOrphansOverAndOnlyThose) {
  make_active(0);
  make_active(1);
  make_active(2);
  EXPECT_EQ(transition::claim(&view_, 1, 1), Status::kNotFound);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  ASSERT_EQ(transition::claim(&view_, 1, 1), Status::kOk);
  EXPECT_EQ(transition::claim(&view_, 2, 1), Status::kNotYet);
  EXPECT_EQ(transition::complete(&view_, 2, 1), Status::kFenced);
  ASSERT_EQ(transition::fence(&view_, 2), Status::kOk);
  ASSERT_EQ(transition::complete(&view_, 1, 1), Status::kOk);
  EXPECT_TRUE(view_.hosts[0].orphans.empty());
  EXPECT_EQ(view_.hosts[2].orphans.size(), 1U) << "it died after the claim";
}

TEST_F(MembershipTest, AClaimEndsWithItsHost) {
  make_active(0);
  make_active(1);
  make_active(2);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  ASSERT_EQ(transition::claim(&view_, 1, 1), Status::kOk);
  ASSERT_EQ(transition::fence(&view_, 1), Status::kOk);
  EXPECT_EQ(transition::complete(&view_, 1, 1), Status::kFenced);
  ASSERT_EQ(transition::claim(&view_, 2, 1), Status::kOk);
  EXPECT_TRUE(view_.hosts[0].orphans[0].is_claimed);
  EXPECT_TRUE(view_.hosts[1].orphans[0].is_claimed);
}

TEST_F(MembershipTest, OnlyPastIncarnationsAreQuiet) {
  make_active(0);
  EXPECT_TRUE(view_.is_quiet());
  EXPECT_EQ(transition::declare_quiet(&view_, 0, 1), Status::kBadArgument);
  ASSERT_EQ(transition::fence(&view_, 0), Status::kOk);
  EXPECT_FALSE(view_.is_quiet());
  ASSERT_EQ(transition::declare_quiet(&view_, 0, 1), Status::kOk);
  EXPECT_TRUE(view_.is_quiet());
}

}  // namespace
}  // namespace nearkv::test

// nkv_axi_mux: each request of each user goes out once, in the user's order, users in turn; each
// answer goes to the user whose client number its id carries.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "Vnkv_axi_mux.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kUsers = 3;
constexpr std::array<std::uint32_t, kUsers> kClients = {0, 1, 6};

// One direction's requests of all users.
class Requests {
 public:
  void offer(test::Random& random, unsigned pace) {
    for (unsigned user = 0; user < kUsers; ++user) {
      if (offered_ >> user & 1 || !is_willing(random, pace)) continue;
      offered_ |= 1u << user;
      ids_[user] = static_cast<std::uint16_t>(kClients[user] << 9 | random() % 512);
      addresses_[user] = random() >> 12;
    }
  }

  bool valid(unsigned user) const { return offered_ >> user & 1; }
  std::uint16_t id(unsigned user) const { return ids_[user]; }
  std::uint64_t address(unsigned user) const { return addresses_[user]; }

  // What the port shows and who is told that it went out.
  void take(const auto& ready, bool valid, bool goes_out, std::uint32_t id, std::uint64_t address) {
    ASSERT_EQ(valid, offered_ != 0);
    unsigned taken = 0;
    for (unsigned user = 0; user < kUsers; ++user)
      if (ready[user] && this->valid(user)) taken |= 1U << user;
    ASSERT_EQ(taken != 0, valid && goes_out);
    if (taken == 0) return;
    unsigned user = 0;
    while (taken >> user != 1) ++user;
    ASSERT_EQ(taken, 1u << user) << "more than one";
    ASSERT_EQ(id, ids_[user]);
    ASSERT_EQ(address, addresses_[user]);
    offered_ &= ~taken;
    ++served_[user];
    for (unsigned other = 0; other < kUsers; ++other) {
      if ((offered_ >> other & 1) == 0) continue;
      ASSERT_LE(++passed_over_[other], kUsers - 1) << "user " << other;
    }
    passed_over_[user] = 0;
  }

  unsigned least_served() const { return *std::min_element(served_.begin(), served_.end()); }

 private:
  unsigned offered_ = 0;
  std::array<unsigned, kUsers> served_{}, passed_over_{};
  std::array<std::uint16_t, kUsers> ids_{};
  std::array<std::uint64_t, kUsers> addresses_{};
};

TEST(AxiMuxTest, ServesUsersInTurnAndFindsThemAgain) {
  for (const unsigned ask : kPaces) {
    for (const unsigned take : kPaces) {
      test::Random random = test::case_random(ask * 8 + take);
      Simulation<Vnkv_axi_mux> mux;
      mux.reset();
      Requests reads, writes;
      for (unsigned i = 0; i < 2000; ++i) {
        reads.offer(random, ask);
        writes.offer(random, ask);
        for (unsigned user = 0; user < kUsers; ++user) {
          mux->ar_valid_i[user] = reads.valid(user);
          mux->w_valid_i[user] = writes.valid(user);
          mux->ar_id_i[user] = reads.id(user);
          mux->ar_addr_i[user] = reads.address(user);
          mux->w_id_i[user] = writes.id(user);
          mux->w_addr_i[user] = writes.address(user);
        }
        mux->ar_ready_i = is_willing(random, take);
        mux->w_ready_i = is_willing(random, take);
        mux->r_valid_i = random() % 2;
        mux->r_id_i = static_cast<std::uint16_t>(kClients[random() % kUsers] << 9 | random() % 512);
        mux->b_valid_i = random() % 2;
        mux->b_id_i = static_cast<std::uint16_t>(kClients[random() % kUsers] << 9 | random() % 512);
        mux.settle();
        reads.take(mux->ar_ready_o, mux->ar_valid_o, mux->ar_ready_i, mux->ar_id_o, mux->ar_addr_o);
        writes.take(mux->w_ready_o, mux->w_valid_o, mux->w_ready_i, mux->w_id_o, mux->w_addr_o);
        for (unsigned user = 0; user < kUsers; ++user) {
          ASSERT_EQ(mux->r_valid_o[user], mux->r_valid_i && mux->r_id_i >> 9 == kClients[user]);
          ASSERT_EQ(mux->b_valid_o[user], mux->b_valid_i && mux->b_id_i >> 9 == kClients[user]);
        }
        ASSERT_EQ(mux->r_id_o, mux->r_id_i);
        ASSERT_EQ(mux->b_id_o, mux->b_id_i);
        ASSERT_TRUE(mux->r_ready_o && mux->b_ready_o);
        if (::testing::Test::HasFatalFailure()) return;
        mux.tick();
      }
      EXPECT_GT(reads.least_served(), 50u);
      EXPECT_GT(writes.least_served(), 50u);
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

// What users may have of a card: set by an administrator, held by the driver.
#include "card/tenants.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <functional>
#include <memory>
#include <vector>

#include "card_file.hpp"
#include "removable_card.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBytes = 64 << 10;
constexpr uid_t kUser = 1000;
constexpr uid_t kOther = 1001;

nkv_card_tenant user(uid_t owner, std::uint16_t queues, std::uint8_t weight, std::uint64_t bytes) {
  return {.owner = owner,
          .queues = queues,
          .weight = weight,
          .kind = NKV_CARD_TENANT_KIND_USER,
          .window_bytes = bytes};
}
nkv_card_tenant others(std::uint16_t queues, std::uint64_t bytes) {
  nkv_card_tenant tenant = user(0, queues, 0, bytes);
  tenant.kind = NKV_CARD_TENANT_KIND_OTHERS;
  return tenant;
}

class TenantsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    std::string reason;
    ASSERT_EQ(mailbox_.open("nearkv0", &reason), Status::kOk) << reason;
    ASSERT_EQ(::chmod(card_path().c_str(), 0666), 0);
  }
  void TearDown() override {
    if (!has_card()) return;
    limit({});
    ::chmod(card_path().c_str(), 0600);
  }

  void limit(const std::vector<nkv_card_tenant>& tenants) {
    std::string reason;
    ASSERT_EQ(write_tenants(&mailbox_, tenants, &reason), Status::kOk) << reason;
  }

  /// What `act` gives in a process of this user, which has nothing that this one has.
  static int as(uid_t owner, const std::function<int()>& act) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setuid(owner) == 0 ? act() : 255);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
  }

  CardMailbox mailbox_;
};

/// 0 or what errno says of so many windows, all open at once.
int take_windows(unsigned count) {
  std::vector<std::unique_ptr<CardFile>> files;
  for (unsigned i = 0; i < count; ++i) {
    files.push_back(std::make_unique<CardFile>());
    if (!files.back()->take_window(kWindowBytes)) return errno;
  }
  return 0;
}

/// The same of queues of one file.
int start_queues(unsigned count) {
  CardFile file(kWindowBytes);
  for (unsigned i = 0; i < count; ++i) {
    if (const int error = file.start(file.whole_window(i)); error != 0) return error;
  }
  return file.works() ? 0 : 253;
}

/// As weigh() gives an error, so that it is no weight.
constexpr int weighs(int error) { return 100 + error; }

/// The weight of a queue that asks for one, or what errno says.
int weigh(std::uint8_t weight) {
  CardFile file(kWindowBytes);
  nkv_card_queue queue = file.whole_window();
  queue.weight = weight;
  const int error = file.start(queue);
  return error == 0 ? file.queue().weight : weighs(error);
}

TEST_F(TenantsTest, HaveNoLimitAtFirst) {
  EXPECT_EQ(as(kUser, [] { return take_windows(8); }), 0);
  EXPECT_EQ(as(kUser, [] { return start_queues(4); }), 0);
}

TEST_F(TenantsTest, HaveWindowsUpToTheirLimit) {
  limit({user(kUser, 4, 1, 3 * kWindowBytes)});
  const CardFile of_another(kWindowBytes);
  EXPECT_EQ(as(kUser, [] { return take_windows(3); }), 0);
  EXPECT_EQ(as(kUser, [] { return take_windows(4); }), EDQUOT);
  EXPECT_EQ(as(kUser, [] { return take_windows(3); }), 0) << "what is given back is free again";
  EXPECT_EQ(as(kOther, [] { return take_windows(8); }), 0);
}

TEST_F(TenantsTest, CountAllTheirProcesses) {
  limit({user(kUser, 3, 1, 3 * kWindowBytes)});
  CardFile of_another(kWindowBytes);
  ASSERT_EQ(of_another.start(of_another.whole_window()), 0);
  const auto two_processes = [](int (*take)(unsigned), unsigned first, unsigned second) {
    return as(kUser, [=] {
      std::vector<std::unique_ptr<CardFile>> files;
      for (unsigned i = 0; i < first; ++i) {
        files.push_back(std::make_unique<CardFile>(kWindowBytes));
        if (files.back()->start(files.back()->whole_window()) != 0) return 252;
      }
      return as(kUser, [=] { return take(second); });
    });
  };
  EXPECT_EQ(two_processes(take_windows, 1, 2), 0);
  EXPECT_EQ(two_processes(take_windows, 1, 3), EDQUOT);
  EXPECT_EQ(two_processes(take_windows, 2, 2), EDQUOT);
  EXPECT_EQ(two_processes(start_queues, 1, 2), 0);
  EXPECT_EQ(two_processes(start_queues, 1, 3), EDQUOT);
}

TEST_F(TenantsTest, CountQueuesInTheirWindowsWhoeverStartsThem) {
  limit({user(kUser, 1, 1, kWindowBytes), user(kOther, 8, 6, kWindowBytes)});
  const auto in_anothers_window = [](const std::function<int(CardFile&)>& start) {
    return as(0, [&start] {
      if (::seteuid(kUser) != 0) return 252;
      CardFile file(kWindowBytes);
      return ::seteuid(0) == 0 && ::setuid(kOther) == 0 ? start(file) : 251;
    });
  };
  EXPECT_EQ(in_anothers_window([](CardFile& file) { return file.start(file.whole_window()); }), 0);
  EXPECT_EQ(in_anothers_window([](CardFile& file) {
              const int error = file.start(file.whole_window());
              return error == 0 ? file.start(file.whole_window(1)) : 253;
            }),
            EDQUOT);
  EXPECT_EQ(in_anothers_window([](CardFile& file) {
              nkv_card_queue heavy = file.whole_window();
              heavy.weight = 6;
              return file.start(heavy);
            }),
            EPERM);
}

TEST_F(TenantsTest, CountWindowsThatAreKept) {
  limit({user(kUser, 4, 1, 2 * kWindowBytes)});
  const auto keep = [] { return CardFile().take_window(kWindowBytes, "kept") ? 0 : errno; };
  EXPECT_EQ(as(kUser, keep), 0);
  EXPECT_EQ(as(kUser, [] { return take_windows(2); }), EDQUOT);
  EXPECT_EQ(as(kUser, [] { return take_windows(1); }), 0);
  EXPECT_EQ(as(kUser, keep), 0) << "the same again";
  limit({user(kUser, 4, 1, 0)});
  EXPECT_EQ(as(kUser, [] { return take_windows(1); }), EDQUOT) << "it has more than it may";
  EXPECT_EQ(as(kUser, keep), 0) << "but that it keeps";
  EXPECT_EQ(as(kUser,
               [] {
                 CardFile file;
                 return file.take_window(0, "kept", NKV_CARD_WINDOW_FLAG_MUST_EXIST)
                            ? ::ioctl(file.fd(), NKV_IOCTL_WINDOW_FORGET)
                            : errno;
               }),
            0);
}

TEST_F(TenantsTest, HaveTheWeightThatTheyAreGiven) {
  EXPECT_EQ(as(kUser, [] { return weigh(0); }), 1);
  EXPECT_EQ(as(kUser, [] { return weigh(2); }), weighs(EPERM));
  limit({user(kUser, 4, 6, kWindowBytes)});
  EXPECT_EQ(as(kUser, [] { return weigh(0); }), 6);
  EXPECT_EQ(as(kUser, [] { return weigh(1); }), 1);
  EXPECT_EQ(as(kUser, [] { return weigh(6); }), 6);
  EXPECT_EQ(as(kUser, [] { return weigh(7); }), weighs(EPERM));
  EXPECT_EQ(as(kOther, [] { return weigh(2); }), weighs(EPERM));
  EXPECT_EQ(weigh(15), 15) << "root has CAP_SYS_NICE";
}

TEST_F(TenantsTest, WithoutAnEntryHaveWhatOthersHave) {
  limit({others(0, 0), user(kUser, 2, 1, kWindowBytes)});
  EXPECT_EQ(as(kOther, [] { return take_windows(1); }), EDQUOT);
  EXPECT_EQ(as(kUser, [] { return start_queues(2); }), 0);
  EXPECT_EQ(take_windows(8), 0) << "root has CAP_SYS_RESOURCE";
  limit({others(1, kWindowBytes)});
  EXPECT_EQ(as(kOther, [] { return start_queues(1); }), 0);
  EXPECT_EQ(as(kOther, [] { return start_queues(2); }), EDQUOT);
}

TEST_F(TenantsTest, AreKnownToADriverThatComesLater) {
  limit({others(0, 0)});
  const RemovableCard card;
  card.remove();
  card.bring_back();
  ASSERT_EQ(::chmod(card_path().c_str(), 0666), 0);
  EXPECT_EQ(as(kOther, [] { return take_windows(1); }), EDQUOT);
  std::string reason;
  ASSERT_EQ(mailbox_.open("nearkv0", &reason), Status::kOk) << reason;
}

TEST_F(TenantsTest, ThatAreWrongChangeNothing) {
  std::string reason;
  limit({user(kUser, 1, 1, kWindowBytes)});
  EXPECT_EQ(write_tenants(&mailbox_, {others(1, 1), others(1, 1)}, &reason), Status::kBadArgument);
  EXPECT_EQ(write_tenants(&mailbox_, {user(kUser, NKV_MAX_QUEUES + 1, 1, 1)}, &reason),
            Status::kBadArgument);
  EXPECT_EQ(write_tenants(&mailbox_, std::vector(NKV_CARD_TENANTS + 1, others(1, 1)), &reason),
            Status::kBadArgument);
  std::vector<nkv_card_tenant> tenants;
  ASSERT_EQ(read_tenants(&mailbox_, &tenants, &reason), Status::kOk) << reason;
  ASSERT_EQ(tenants.size(), 1U);
  EXPECT_EQ(tenants[0].owner, kUser);
  EXPECT_EQ(tenants[0].window_bytes, kWindowBytes);
  EXPECT_EQ(as(kUser, [] { return start_queues(1); }), 0);
}

}  // namespace
}  // namespace nearkv::test

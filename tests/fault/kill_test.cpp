// kill -9 at every persistence point, one after the other: what was acknowledged is found again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "device/memory.hpp"
#include "fault/store_world.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kPointsPerLife = 200;  ///< Then the work begins anew, with another seed.

/// Ends its process at the n-th event.
class Killer final : public Persistence {
 public:
  explicit Killer(std::uint64_t event) : left_(event) {}
  void write_back(std::span<const std::byte>) noexcept override { tick(); }
  void streamed(std::span<const std::byte>) noexcept override { tick(); }
  void fence() noexcept override { tick(); }

 private:
  void tick() {
    if (left_-- == 0) ::kill(::getpid(), SIGKILL);
  }
  std::uint64_t left_;
};

/// What the child tells its parent, in memory that both see.
struct Told {
  std::atomic<std::uint32_t> steps{0};
  struct Entry {
    std::uint32_t count = 0;
    std::uint32_t spaces[kWorldSpaces * kWorldKeys] = {};
    std::uint64_t keys[kWorldSpaces * kWorldKeys] = {};
    std::uint64_t seeds[kWorldSpaces * kWorldKeys] = {};
  };
  Entry held[2];  ///< After step n: held[n % 2].
};

void tell(Told* told, std::uint32_t step, const Held& held) {
  Told::Entry& entry = told->held[step % 2];
  entry.count = 0;
  for (const auto& [name, seed] : held) {
    entry.spaces[entry.count] = name.first;
    entry.keys[entry.count] = name.second;
    entry.seeds[entry.count++] = seed;
  }
  told->steps.store(step, std::memory_order_release);
}

Held told_held(const Told& told, std::uint32_t step) {
  Held held;
  const Told::Entry& entry = told.held[step % 2];
  for (std::uint32_t i = 0; i < entry.count; ++i) {
    held[{entry.spaces[i], entry.keys[i]}] = entry.seeds[i];
  }
  return held;
}

/// Works until it is killed.
[[noreturn]] void work(std::span<std::byte> memory, std::uint64_t life, std::uint64_t event,
                       Told* told) {
  Random random = case_random(life);
  const auto store = create_world(memory, std::make_unique<Killer>(event));
  std::string wrong;
  tell(told, 1, {});
  for (std::uint32_t step = 2;; ++step) {
    run_step(store.get(), random_step(random));
    tell(told, step, look(store.get(), &wrong));
    if (!wrong.empty()) ::_exit(2);
  }
}

/// The step after what was told, done to the end where nobody kills.
Held finish_step(std::uint64_t life, std::uint32_t steps, Done* done) {
  Random random = case_random(life);
  std::vector<std::byte> memory(kWorldBytes);
  const auto store = create_world(memory, Persistence::make(Durability::kNone));
  std::string wrong;
  Held held;
  for (std::uint32_t step = 2; step <= steps + 1; ++step) {
    *done = run_step(store.get(), random_step(random));
    held = look(store.get(), &wrong);  // Looking counts as use: it decides what is evicted.
  }
  return held;
}

/// Users who come and go: how many have stored their object, and how many of those want it no more.
struct Users {
  std::atomic<std::uint32_t> stored{0};
  std::atomic<std::uint32_t> leaving{0};
};

/// Some names go on in a second record.
Namespace name_of(std::uint32_t user) {
  Namespace name;
  name.model = "user " + std::to_string(user);
  if (user % 3 == 0) name.model.resize(NKV_NAMESPACE_RECORD_TEXT_BYTES + 50, '.');
  return name;
}

/// Each user has a namespace as long as it is there, and all use the same key. The table is full
/// after the second, and each one after that takes the place of one before. Until it is killed.
[[noreturn]] void come_and_go(std::span<std::byte> memory, std::uint64_t event, Users* users) {
  const auto store = create_world(memory, std::make_unique<Killer>(event));
  for (std::uint32_t user = 1;; ++user) {
    std::uint32_t space = 0;
    if (store->open_namespace(name_of(user), &space) != Status::kOk) ::_exit(3);
    if (exists(store.get(), space, key_of(0))) ::_exit(4);
    if (set(store.get(), space, key_of(0), contents(user, 9000)) != Status::kOk) ::_exit(5);
    users->stored = user;
    if (!exists(store.get(), space, key_of(0))) ::_exit(8);
    users->leaving = user;
    if (erase(store.get(), space, key_of(0)) != Status::kOk) ::_exit(6);
    if (store->close_namespace(space) != Status::kOk) ::_exit(7);
  }
}

/// A pool's memory in a file, and what a child tells of its work in it.
template <typename Telling>
class KilledWorld : public testing::Test {
 protected:
  void SetUp() override {
    Memory::Options options;
    options.path = file_.path();
    options.bytes = kWorldBytes;
    options.huge = false;
    std::string reason;
    ASSERT_EQ(Memory::map(options, &mapping_, &reason), Status::kOk) << reason;
    memory_ = mapping_.bytes().first(kWorldBytes);
    void* const shared =
        ::mmap(nullptr, sizeof(Telling), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    told_ = new (shared) Telling;
  }
  void TearDown() override { ::munmap(told_, sizeof(Telling)); }

  /// Runs `work` in a child, which somebody kills.
  template <typename Work>
  void run_until_killed(Work work) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) work();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  }

  TemporaryFile file_{"kill"};
  Memory mapping_;
  std::span<std::byte> memory_;
  Telling* told_ = nullptr;
};

using NamespaceKillTest = KilledWorld<Users>;

TEST_F(NamespaceKillTest, NoObjectOfAnOldNameAppearsUnderTheOneThatTookItsPlace) {
  const std::uint64_t kills = by_size(400, 2000);
  std::uint64_t survived = 0;
  std::uint64_t after_reuse = 0;
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    told_->stored = told_->leaving = 0;
    run_until_killed([&] { come_and_go(memory_, kill, told_); });
    if (HasFatalFailure()) return;
    std::string wrong;
    const auto store = open_world(memory_, &wrong);
    const std::uint32_t last = told_->stored;
    ASSERT_TRUE(store != nullptr || last == 0) << wrong;
    after_reuse += last > 2 ? 1 : 0;
    ++survived;
    bool is_last_here = false;
    for (const NamespaceInfo& info : store ? store->namespaces() : std::vector<NamespaceInfo>{}) {
      if (!info.text.starts_with("user ")) continue;
      const auto user = static_cast<std::uint32_t>(std::stoul(info.text.substr(5)));
      ASSERT_TRUE(info.text.starts_with(name_of(user).model)) << info.text;
      Bytes found;
      if (get(store.get(), info.number, key_of(0), &found) != Status::kOk) continue;
      ASSERT_TRUE(found == contents(user, 9000)) << info.text;
      is_last_here |= user == last;
    }
    ASSERT_TRUE(is_last_here || told_->leaving == last) << last;
  }
  EXPECT_GT(after_reuse, kills / 2);
  report_fault("kill -9 while namespaces take others' places", kills, survived, 0);
}

using KillTest = KilledWorld<Told>;

TEST_F(KillTest, AtEveryPersistencePointLosesNothingThatWasAcknowledged) {
  const std::uint64_t kills = by_size(600, 10000);
  std::uint64_t survived = 0;
  std::uint64_t before_any = 0;
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    const std::uint64_t life = kill / kPointsPerLife;
    SCOPED_TRACE("kill " + std::to_string(kill) + ", " + case_name(life));
    told_->steps = 0;
    run_until_killed([&] { work(memory_, life, kill % kPointsPerLife, told_); });
    if (HasFatalFailure()) return;

    const std::uint32_t steps = told_->steps.load(std::memory_order_acquire);
    std::string wrong;
    const auto store = open_world(memory_, &wrong);
    if (steps == 0) {  // It was killed while it made the pool: there is none, or an empty one.
      ++before_any;
      ++survived;
      continue;
    }
    ASSERT_NE(store, nullptr) << wrong;
    const Held found = look(store.get(), &wrong);
    ASSERT_EQ(wrong, "");
    Done done;
    const Held after = finish_step(life, steps, &done);
    const auto difference = compare(found, told_held(*told_, steps), after, &done);
    ASSERT_FALSE(difference) << *difference;
    ++survived;
  }
  EXPECT_LT(before_any, kills / 4) << "most kills came before there was anything to lose";
  report_fault("kill -9 at a persistence point", kills, survived, 0);
}

}  // namespace
}  // namespace nearkv::test

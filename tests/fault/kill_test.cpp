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

TEST(KillTest, AtEveryPersistencePointLosesNothingThatWasAcknowledged) {
  const std::uint64_t kills = by_size(600, 10000);
  const TemporaryFile file("kill");
  Memory::Options options;
  options.path = file.path();
  options.bytes = kWorldBytes;
  options.huge = false;
  Memory mapping;
  std::string reason;
  ASSERT_EQ(Memory::map(options, &mapping, &reason), Status::kOk) << reason;
  const std::span<std::byte> memory = mapping.bytes().first(kWorldBytes);
  void* const shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const told = new (shared) Told;

  std::uint64_t survived = 0;
  std::uint64_t before_any = 0;
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    const std::uint64_t life = kill / kPointsPerLife;
    SCOPED_TRACE("kill " + std::to_string(kill) + ", " + case_name(life));
    told->steps = 0;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) work(memory, life, kill % kPointsPerLife, told);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);

    const std::uint32_t steps = told->steps.load(std::memory_order_acquire);
    std::string wrong;
    const auto store = open_world(memory, &wrong);
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
    const auto difference = compare(found, told_held(*told, steps), after, &done);
    ASSERT_FALSE(difference) << *difference;
    ++survived;
  }
  EXPECT_LT(before_any, kills / 4) << "most kills came before there was anything to lose";
  report_fault("kill -9 at a persistence point", kills, survived, 0);
  ::munmap(shared, sizeof(Told));
}

}  // namespace
}  // namespace nearkv::test

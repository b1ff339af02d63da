// kill -9 at every persistence point of a pool of sequences, one after the other, life after life
// of one pool: what was acknowledged is found again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "device/memory.hpp"
#include "fault/sequence_world.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kPoints = 150;       ///< Of one life; the next then begins with the first.
constexpr std::uint64_t kLivesOfPool = 450;  ///< Then the pool is made anew.
constexpr std::size_t kMostSteps = 4096;     ///< Of one life.

/// Ends its process at the n-th event, whichever thread comes to it.
class Killer final : public Persistence {
 public:
  void arm(std::uint64_t event) {
    left_ = event;
    armed_ = true;
  }
  void write_back(std::span<const std::byte>) noexcept override { tick(); }
  void streamed(std::span<const std::byte>) noexcept override { tick(); }
  void fence() noexcept override { tick(); }

 private:
  void tick() {
    if (armed_ && left_.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
  }
  std::atomic<bool> armed_{false};
  std::atomic<std::uint64_t> left_{0};
};

/// What the child tells its parent, in memory that both see. A step is told before it is begun,
/// because it may have taken effect when the acknowledgement no longer gets out.
struct Told {
  std::atomic<std::uint32_t> begun{0};
  std::atomic<std::uint32_t> acknowledged{0};
  SequenceStep steps[kMostSteps];
  Status statuses[kMostSteps];
};

/// Where a life ends.
struct Plan {
  bool makes_pool = false;
  bool dies_early = false;  ///< While the pool is made or taken up, too.
  std::uint64_t event = 0;
};

/// Works on the file until it is killed.
[[noreturn]] void work(const TemporaryFile& file, const Plan& plan, Sequences sequences,
                       Random random, Told* told) {
  Memory::Options options;
  options.path = file.path();
  options.bytes = kPoolBytes;
  options.huge = false;
  Memory mapping;
  std::string reason;
  if (Memory::map(options, &mapping, &reason) != Status::kOk) ::_exit(4);
  const std::span<std::byte> memory = mapping.bytes().first(kPoolBytes);
  Killer killer;
  if (plan.dies_early) killer.arm(plan.event);
  const Persistences both{&killer, &killer};
  const std::unique_ptr<Pool> pool =
      plan.makes_pool ? create_pool(memory, both) : open_pool(memory, both, &reason);
  if (pool == nullptr) ::_exit(3);
  if (!plan.dies_early) killer.arm(plan.event);
  for (std::uint32_t number = 0; number < kMostSteps; ++number) {
    const SequenceStep step = random_step(sequences, random);
    told->steps[number] = step;
    told->begun.store(number + 1, std::memory_order_release);
    const Status status = run_step(pool.get(), step);
    told->statuses[number] = status;
    told->acknowledged.store(number + 1, std::memory_order_release);
    if (status == Status::kOk) record(step, &sequences);
  }
  ::_exit(2);
}

/// The pool as anybody would open it: a `cpu:` device over the file.
std::unique_ptr<Pool> open_file(const TemporaryFile& file, std::string* reason) {
  std::unique_ptr<Device> device;
  std::unique_ptr<Pool> pool;
  if (open_device(file.uri("8MiB"), &device, reason) == Status::kOk) {
    (void)Pool::open(std::move(device), pool_options(), &pool, reason);
  }
  return pool;
}

TEST(SequenceKillTest, AtEveryPersistencePointLosesNothingThatWasAcknowledged) {
  const std::uint64_t kills = by_size(600, 12000);
  const TemporaryFile file("sequence_kill");
  std::string reason;
  void* const shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const told = new (shared) Told;

  Sequences sequences;
  std::uint64_t steps = 0;
  std::uint64_t cold_answers = 0;
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill) + ", " + case_name(kill));
    Plan plan;
    plan.makes_pool = kill % kLivesOfPool == 0;
    plan.event = kill % kPoints;
    plan.dies_early = !plan.makes_pool && kill % 4 == 0;
    if (plan.makes_pool) sequences.clear();
    told->begun = told->acknowledged = 0;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) work(file, plan, sequences, case_random(kill), told);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);

    const std::uint32_t begun = told->begun.load(std::memory_order_acquire);
    const std::uint32_t acknowledged = told->acknowledged.load(std::memory_order_acquire);
    for (std::uint32_t step = 0; step < acknowledged; ++step) {
      if (told->statuses[step] == Status::kOk) record(told->steps[step], &sequences);
    }
    steps += acknowledged;
    Sequences after = sequences;
    const SequenceStep* const last = begun > acknowledged ? &told->steps[acknowledged] : nullptr;
    if (last != nullptr) record(*last, &after);
    const std::unique_ptr<Pool> pool = open_file(file, &reason);
    ASSERT_NE(pool, nullptr) << reason;
    std::string wrong;
    const Sequences found = look(pool.get(), &wrong, &cold_answers);
    ASSERT_EQ(wrong, "");
    const auto difference = compare(found, sequences, after, last);
    ASSERT_FALSE(difference) << *difference;
    EXPECT_EQ(pool->usage().damaged_pages, 0U);
    sequences = found;
  }
  EXPECT_GT(steps, kills / 2) << "children were killed before they did anything";
  EXPECT_GT(cold_answers, kills / 20) << "hardly anything was compressed";
  report_fault("kill -9 at a persistence point of a pool of sequences", kills, kills, 0);
  ::munmap(shared, sizeof(Told));
}

}  // namespace
}  // namespace nearkv::test

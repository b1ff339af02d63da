// A real SIGBUS inside a guarded access is a status; anywhere else it is what it was before.
#include "media/guarded.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <barrier>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "media/checked_copy.hpp"
#include "support/checksum.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kPageBytes = 4096;

/// A shared mapping of a file of which only the first bytes are left.
class CutMapping {
 public:
  CutMapping(const std::string& name, std::size_t mapped_bytes, std::size_t left_bytes)
      : file_(name), bytes_(mapped_bytes), left_bytes_(left_bytes) {
    const int fd = ::open(file_.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && ::ftruncate(fd, static_cast<off_t>(mapped_bytes)) == 0;
    void* const address = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    good = good && address != MAP_FAILED;
    if (good) {
      data_ = static_cast<std::byte*>(address);
      std::memset(data_, 0x5A, mapped_bytes);
      good = ::ftruncate(fd, static_cast<off_t>(left_bytes)) == 0;
    }
    ::close(fd);
    if (!good) throw std::runtime_error("cannot make the mapping");
  }
  CutMapping(const CutMapping&) = delete;
  CutMapping& operator=(const CutMapping&) = delete;
  ~CutMapping() { ::munmap(data_, bytes_); }

  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_}; }
  [[nodiscard]] std::span<std::byte> left() const { return {data_, left_bytes_}; }
  /// The first address that is gone.
  [[nodiscard]] std::uintptr_t end() const {
    return reinterpret_cast<std::uintptr_t>(data_) + left_bytes_;
  }

 private:
  TemporaryFile file_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::size_t left_bytes_;
};

void touch(const volatile std::byte* byte) { static_cast<void>(*byte); }

TEST(GuardedTest, AnAccessThatDoesNotFaultIsRun) {
  const SigbusHandler handler;
  std::vector<std::byte> memory(100);
  std::uintptr_t fault = 7;
  int runs = 0;
  EXPECT_EQ(guarded(memory, [&] { ++runs; }, &fault), Status::kOk);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(fault, 7U);
}

TEST(GuardedTest, AFaultInTheMiddleOfACopyIsPoisonAtItsAddress) {
  const SigbusHandler handler;
  const CutMapping mapping("guarded_copy", 64 * kPageBytes, 24 * kPageBytes);
  std::vector<std::byte> host(mapping.span().size(), std::byte{1});
  std::uintptr_t fault = 0;
  ASSERT_EQ(
      guarded(mapping.span(), [&] { copy_in(mapping.span(), host, 0); }, &fault), Status::kPoison);
  EXPECT_EQ(fault, mapping.end());
  EXPECT_EQ(mapping.left().back(), std::byte{1}) << "what comes before the fault was copied";

  // Both ways out: past the caches and, for few bytes, through them.
  const std::vector<std::byte> before(host.size(), std::byte{2});
  for (const std::size_t bytes : {mapping.span().size(), 2 * kPageBytes}) {
    host = before;
    const std::size_t from = bytes == mapping.span().size() ? 0 : 23 * kPageBytes;
    fault = 0;
    ASSERT_EQ(guarded(
                  mapping.span(), [&] { copy_out(host, mapping.span().subspan(from, bytes), 0); },
                  &fault),
              Status::kPoison);
    EXPECT_GE(fault, mapping.end());
    EXPECT_LT(fault, mapping.end() + kPageBytes);
    EXPECT_EQ(host.back(), std::byte{2});
  }
}

TEST(GuardedTest, TheSameThreadIsGuardedAgainAfterAFault) {
  const SigbusHandler handler;
  const CutMapping mapping("guarded_again", 4 * kPageBytes, kPageBytes);
  for (std::uint64_t number = 0; number < 1000; ++number) {
    Random random = case_random(number);
    const std::size_t at = pick(random, 0, 4 * kPageBytes - 1);
    std::uintptr_t fault = 0;
    const Status status =
        guarded(mapping.span(), [&] { touch(mapping.span().data() + at); }, &fault);
    if (at < kPageBytes) {
      ASSERT_EQ(status, Status::kOk);
    } else {
      ASSERT_EQ(status, Status::kPoison);
      ASSERT_EQ(fault, reinterpret_cast<std::uintptr_t>(mapping.span().data()) + at);
    }
  }
}

TEST(GuardedTest, AFaultEndsTheInnermostAccessWhoseMappingHoldsIt) {
  const SigbusHandler handler;
  const CutMapping outer("guarded_outer", 2 * kPageBytes, kPageBytes);
  const CutMapping inner("guarded_inner", 2 * kPageBytes, kPageBytes);
  std::uintptr_t outer_fault = 0;
  std::uintptr_t inner_fault = 0;
  Status inner_status = Status::kInternal;
  int after_inner = 0;
  // The inner access meets its own fault, and the outer one goes on.
  EXPECT_EQ(guarded(
                outer.span(),
                [&] {
                  inner_status = guarded(
                      inner.span(), [&] { touch(&inner.span()[kPageBytes]); }, &inner_fault);
                  ++after_inner;
                },
                &outer_fault),
            Status::kOk);
  EXPECT_EQ(inner_status, Status::kPoison);
  EXPECT_EQ(inner_fault, inner.end());
  EXPECT_EQ(after_inner, 1);
  // The inner access meets the outer one's fault: both end.
  EXPECT_EQ(guarded(
                outer.span(),
                [&] {
                  inner_status = guarded(
                      inner.span(), [&] { touch(&outer.span()[kPageBytes]); }, &inner_fault);
                  ++after_inner;
                },
                &outer_fault),
            Status::kPoison);
  EXPECT_EQ(outer_fault, outer.end());
  EXPECT_EQ(after_inner, 1);
  // And the thread is as it was before.
  EXPECT_EQ(guarded(
                inner.span(), [&] { touch(&inner.span()[kPageBytes]); }, &inner_fault),
            Status::kPoison);
}

TEST(GuardedTest, ThreadsFaultAtOnceEachForItself) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  const CutMapping mapping("guarded_threads", 40 * kPageBytes, 20 * kPageBytes);
  std::barrier start(kThreads);
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::byte> host(mapping.span().size());
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        const SigbusHandler handler;  // installed and removed under the others' feet
        // Half of the threads read what is left, the others beyond it.
        const bool beyond = (thread + round) % 2 != 0;
        const std::span<const std::byte> from = beyond ? mapping.span() : mapping.left();
        std::uintptr_t fault = 0;
        std::uint32_t crc = 0;
        const Status status =
            guarded(mapping.span(), [&] { crc = copy_out(host, from, 0); }, &fault);
        const bool right = beyond ? status == Status::kPoison && fault >= mapping.end()
                                  : status == Status::kOk && crc == checksum(mapping.left());
        if (!right) ++wrong[static_cast<std::size_t>(thread)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

sigjmp_buf elsewhere;
std::uintptr_t seen_elsewhere = 0;

void handler_of_the_host(int /*signal*/, siginfo_t* info, void* /*context*/) {
  seen_elsewhere = reinterpret_cast<std::uintptr_t>(info->si_addr);
  siglongjmp(elsewhere, 1);
}

/// The address at which the host's handler found a fault of `byte`; 0 if it found none.
std::uintptr_t fault_elsewhere(const std::byte* byte) {
  seen_elsewhere = 0;
  if (sigsetjmp(elsewhere, 1) == 0) touch(byte);
  return seen_elsewhere;
}

struct sigaction present_action() {
  struct sigaction present{};
  ::sigaction(SIGBUS, nullptr, &present);
  return present;
}

TEST(GuardedTest, OtherFaultsGoToTheHandlerThatWasThere) {
  const struct sigaction original = present_action();
  struct sigaction host{};
  host.sa_sigaction = &handler_of_the_host;
  host.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGBUS, &host, nullptr), 0);
  {
    const SigbusHandler first;
    const SigbusHandler second;
    EXPECT_NE(present_action().sa_sigaction, &handler_of_the_host);
    const CutMapping ours("guarded_ours", 2 * kPageBytes, kPageBytes);
    const CutMapping theirs("guarded_theirs", 2 * kPageBytes, kPageBytes);
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(fault_elsewhere(&theirs.span()[kPageBytes]), theirs.end());
      std::uintptr_t fault = 0;
      EXPECT_EQ(
          guarded(ours.span(), [&] { touch(&ours.span()[kPageBytes]); }, &fault), Status::kPoison);
    }
  }
  EXPECT_EQ(present_action().sa_sigaction, &handler_of_the_host) << "restored by the last one";
  ::sigaction(SIGBUS, &original, nullptr);
}

/// Sends this thread a SIGBUS that nothing has raised, whatever address it names.
void send_bus_error(std::byte* named) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_addr = named;
  ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), SIGBUS, &info);
}

using GuardedDeathTest = testing::Test;

TEST(GuardedDeathTest, AFaultOutsideEndsTheProcessAsBefore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const CutMapping mapping("guarded_death", 4 * kPageBytes, kPageBytes);
  std::uintptr_t fault = 0;
  const auto bus_error = testing::KilledBySignal(SIGBUS);
  ::signal(SIGBUS, SIG_DFL);  // not a sanitizer's
  // Nothing is guarded; something else is; what is guarded has been left; the signal was sent.
  EXPECT_EXIT(
      {
        const SigbusHandler handler;
        touch(&mapping.span()[kPageBytes]);
      },
      bus_error, "");
  EXPECT_EXIT(
      {
        const SigbusHandler handler;
        static_cast<void>(
            guarded(mapping.left(), [&] { touch(&mapping.span()[kPageBytes]); }, &fault));
      },
      bus_error, "");
  EXPECT_EXIT(
      {
        const SigbusHandler handler;
        static_cast<void>(guarded(mapping.span(), [] {}, &fault));
        touch(&mapping.span()[kPageBytes]);
      },
      bus_error, "");
  EXPECT_EXIT(
      {
        const SigbusHandler handler;
        static_cast<void>(guarded(mapping.span(), [] { ::raise(SIGBUS); }, &fault));
      },
      bus_error, "");
  EXPECT_EXIT(
      {
        const SigbusHandler handler;
        static_cast<void>(
            guarded(mapping.span(), [&] { send_bus_error(&mapping.span()[kPageBytes]); }, &fault));
      },
      bus_error, "");
  EXPECT_EXIT(
      {
        {
          const SigbusHandler handler;
        }
        static_cast<void>(
            guarded(mapping.span(), [&] { touch(&mapping.span()[kPageBytes]); }, &fault));
      },
      bus_error, "");
}

struct sigaction below{};

void handler_on_top(int signal, siginfo_t* info, void* context) {
  below.sa_sigaction(signal, info, context);
}

/// Exits with 0 if the handler still serves those that call it from above.
[[noreturn]] void come_back_under_another_handler() {
  const CutMapping mapping("guarded_under", 2 * kPageBytes, kPageBytes);
  {
    const SigbusHandler handler;
    struct sigaction top{};
    top.sa_sigaction = &handler_on_top;
    top.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &top, &below);
  }
  const bool left_alone = present_action().sa_sigaction == &handler_on_top;
  const SigbusHandler again;
  int caught = 0;
  for (int round = 0; round < 2; ++round) {
    std::uintptr_t fault = 0;
    const auto read = [&] { touch(&mapping.span()[kPageBytes]); };
    if (guarded(mapping.span(), read, &fault) == Status::kPoison) ++caught;
  }
  ::_exit(left_alone && caught == 2 ? 0 : 1);
}

TEST(GuardedDeathTest, AHandlerOnTopIsLeftThereAndMayStillCallOurs) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(come_back_under_another_handler(), testing::ExitedWithCode(0), "");
}

// Takes one page of the machine's memory out of use until it is started anew.
TEST(GuardedTest, PoisonedMemoryIsPoison) {
  constexpr std::size_t kBytes = 8 * kPageBytes;
  void* const address =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::span memory(static_cast<std::byte*>(address), kBytes);
  std::memset(memory.data(), 1, kBytes);
  if (::madvise(&memory[5 * kPageBytes], kPageBytes, MADV_HWPOISON) != 0) {
    const int error = errno;
    ::munmap(address, kBytes);
    GTEST_SKIP() << "memory cannot be poisoned here: " << std::strerror(error);
  }
  const SigbusHandler handler;
  std::vector<std::byte> host(kBytes);
  std::uintptr_t fault = 0;
  EXPECT_EQ(guarded(memory, [&] { copy_out(host, memory, 0); }, &fault), Status::kPoison);
  EXPECT_EQ(fault / kPageBytes, reinterpret_cast<std::uintptr_t>(address) / kPageBytes + 5);
  EXPECT_EQ(guarded(
                memory, [&] { copy_out(host, memory.first(5 * kPageBytes), 0); }, &fault),
            Status::kOk);
  ::munmap(address, kBytes);
}

}  // namespace
}  // namespace nearkv::test

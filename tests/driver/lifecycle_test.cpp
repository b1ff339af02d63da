// Files come and go, processes die, the card is reset, interrupts are lost: nothing leaks or hangs.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "card_file.hpp"
#include "support/environment.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWindowBytes = 64 << 10;

void set_fault(const std::string& name, unsigned count) {
  std::ofstream("/sys/kernel/debug/nearkv/nearkv0/" + name) << count << std::flush;
}

class LifecycleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    before_ = CardFile().info();
    ASSERT_NE(before_.memory_bytes, 0U) << "no memory is attached to the card";
  }

  void TearDown() override {
    if (!has_card()) return;
    set_fault("fail_registers", 0);
    set_fault("fail_after", 0);
    EXPECT_EQ(CardFile().info().free_bytes, before_.free_bytes);
    EXPECT_EQ(CardFile().info().free_queues, before_.free_queues);
  }

  nkv_card_info before_{};
};

nkv_pages_command nop() {
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_NOP;
  return command;
}

int wait_for(const CardFile& file, std::uint64_t* epoch, std::chrono::nanoseconds timeout) {
  nkv_card_wait wait{.epoch = *epoch, .timeout_ns = static_cast<std::uint64_t>(timeout.count())};
  const int error = file.call(NKV_IOCTL_WAIT, &wait);
  *epoch = wait.epoch;
  return error;
}

TEST_F(LifecycleTest, ACompletionWakesWhoeverWaits) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  const int event = ::eventfd(0, EFD_NONBLOCK);
  const nkv_card_eventfd wanted{.fd = event, .reserved = 0};
  ASSERT_EQ(file.call(NKV_IOCTL_EVENTFD, &wanted), 0);
  std::uint64_t epoch = 0;
  EXPECT_EQ(wait_for(file, &epoch, 1ms), ETIMEDOUT);
  for (unsigned i = 0; i < 40; ++i) {
    file.submit(nop());
    ASSERT_EQ(wait_for(file, &epoch, 20s), 0);
    ASSERT_EQ(file.take().status, NKV_STATUS_OK);
    eventfd_t count = 0;
    EXPECT_EQ(::eventfd_read(event, &count), 0);
  }
  file.submit(nop());
  pollfd poll{.fd = file.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&poll, 1, 20000), 1);
  EXPECT_EQ(poll.revents, POLLIN);
  ::close(event);
}

TEST_F(LifecycleTest, ALostInterruptIsFoundByLooking) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  set_fault("drop_interrupts", 1);
  file.submit(nop());
  EXPECT_EQ(file.take().status, NKV_STATUS_OK);
  std::uint64_t epoch = 0;
  EXPECT_EQ(wait_for(file, &epoch, 50ms), ETIMEDOUT);
  file.submit(nop());
  EXPECT_EQ(wait_for(file, &epoch, 20s), 0);
}

TEST_F(LifecycleTest, ACommandThatFailsIsCountedAsAnError) {
  const auto errors = [] { return std::stoull(card_attribute("errors")); };
  const std::uint64_t before = errors();
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  EXPECT_TRUE(file.works());
  EXPECT_EQ(errors(), before);
  nkv_pages_command wrong{};
  wrong.opcode = 0xFF;
  file.submit(wrong);
  EXPECT_NE(file.take().status, NKV_STATUS_OK);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (errors() == before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(errors(), before + 1);
}

TEST_F(LifecycleTest, ASignalEndsAWait) {
  CardFile file(kWindowBytes);
  struct sigaction action{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 50'000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
  std::uint64_t epoch = 0;
  EXPECT_EQ(wait_for(file, &epoch, 20s), EINTR);
}

TEST_F(LifecycleTest, AResetCancelsQueuesAndKeepsWindows) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  const int event = ::eventfd(0, EFD_NONBLOCK);
  const nkv_card_eventfd wanted{.fd = event, .reserved = 0};
  ASSERT_EQ(file.call(NKV_IOCTL_EVENTFD, &wanted), 0);
  file.window().back() = std::byte{42};
  std::thread resetter([] {
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(set_card_attribute("reset", "1"));
  });
  std::uint64_t epoch = 0;
  EXPECT_EQ(wait_for(file, &epoch, 20s), ECANCELED);
  resetter.join();
  eventfd_t count = 0;
  EXPECT_EQ(::eventfd_read(event, &count), 0) << "whoever waits for it alone wakes too";
  ::close(event);
  EXPECT_EQ(file.stop(), EINVAL);
  EXPECT_EQ(file.window().back(), std::byte{42});
  EXPECT_EQ(file.start(file.whole_window()), 0);
  EXPECT_TRUE(file.works());
}

TEST_F(LifecycleTest, AResetIsOneThoughTheCardDoesNotAnswerBefore) {
  // The driver's, and the kernel's of the function.
  for (const char* const reset : {"reset", "../reset"}) {
    CardFile file(kWindowBytes);
    ASSERT_EQ(file.start(file.whole_window()), 0);
    set_fault("fail_registers", 1);
    EXPECT_TRUE(set_card_attribute(reset, "1"));
    EXPECT_EQ(file.stop(), EINVAL);
    EXPECT_EQ(file.start(file.whole_window()), 0);
    EXPECT_TRUE(file.works());
  }
}

TEST_F(LifecycleTest, ACardThatDoesNotComeBackFromAResetIsAnErrorUntilTheNext) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  set_fault("fail_registers", 100);
  EXPECT_TRUE(set_card_attribute("../reset", "1"));
  set_fault("fail_registers", 0);
  EXPECT_EQ(file.stop(), EIO);
  EXPECT_EQ(file.start(file.whole_window()), EIO);
  EXPECT_TRUE(set_card_attribute("../reset", "1"));
  EXPECT_EQ(file.stop(), EINVAL);
  EXPECT_EQ(file.start(file.whole_window()), 0);
  EXPECT_TRUE(file.works());
}

TEST_F(LifecycleTest, AKeptWindowOutlivesItsProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    CardFile file;
    if (!file.take_window(kWindowBytes, "pool")) ::_exit(1);
    const Mapping window = file.map(0, kWindowBytes);
    window.bytes()[100] = std::byte{7};
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  CardFile file;
  EXPECT_FALSE(file.take_window(2 * kWindowBytes, "pool"));
  EXPECT_EQ(errno, EINVAL);
  ASSERT_TRUE(file.take_window(0, "pool", NKV_CARD_WINDOW_FLAG_MUST_EXIST));
  EXPECT_EQ(file.map(0, kWindowBytes).bytes()[100], std::byte{7});
  CardFile second;
  EXPECT_FALSE(second.take_window(0, "pool", NKV_CARD_WINDOW_FLAG_MUST_EXIST));
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(::ioctl(file.fd(), NKV_IOCTL_WINDOW_FORGET), 0);
}

TEST_F(LifecycleTest, AWindowsNameIsOneLineWhateverIsInIt) {
  CardFile file;
  ASSERT_TRUE(file.take_window(kWindowBytes, "a\n9 0 kept b\x1b[2J"));
  const std::string windows = card_attribute("windows");
  EXPECT_EQ(windows.find('\x1b'), std::string::npos) << windows;
  EXPECT_NE(windows.find("used a\\n9 0 kept b"), std::string::npos) << windows;
  EXPECT_EQ(::ioctl(file.fd(), NKV_IOCTL_WINDOW_FORGET), 0);
}

TEST_F(LifecycleTest, ProcessesKilledInTheMiddleLeakNothing) {
  Random random = case_random(3);
  const std::uint64_t cycles = by_size(200, 2000);
  for (std::uint64_t i = 0; i < cycles; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      CardFile file(kWindowBytes);
      if (file.start(file.whole_window()) != 0) ::_exit(1);
      while (file.works()) {
      }
      ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(pick(random, 0, 30'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "cycle " << i << ": status " << status;
  }
}

TEST_F(LifecycleTest, WhatIsUsedUpIsRefusedAndComesBack) {
  std::vector<std::unique_ptr<CardFile>> files;
  unsigned started = 0;
  int error = 0;
  while (error == 0) {
    files.push_back(std::make_unique<CardFile>(kWindowBytes));
    for (std::uint32_t i = 0; i < NKV_CARD_OPEN_QUEUES && error == 0; ++i) {
      error = files.back()->start(files.back()->whole_window(i));
      started += error == 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(error, EMFILE);
  EXPECT_EQ(started, before_.free_queues);
  CardFile large;
  EXPECT_FALSE(large.take_window(before_.memory_bytes));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_FALSE(large.take_window(kWindowBytes + 1));
  EXPECT_EQ(errno, EINVAL);
}

/// One that nobody knows to have stopped.
void expect_out_of_use(std::optional<CardFile>* file, const nkv_card_info& before) {
  EXPECT_EQ(CardFile().info().free_queues, before.free_queues - 1);
  file->reset();
  EXPECT_EQ(CardFile().info().free_bytes, before.free_bytes - kWindowBytes);
  EXPECT_NE(card_attribute("windows").find("orphan"), std::string::npos);
  EXPECT_TRUE(set_card_attribute("reset", "1"));
  EXPECT_EQ(card_attribute("windows"), "");
}

TEST_F(LifecycleTest, AQueueThatDoesNotStopKeepsItsWindowFromOthers) {
  std::optional<CardFile> file(kWindowBytes);
  ASSERT_EQ(file->start(file->whole_window()), 0);
  set_fault("fail_registers", 1);
  EXPECT_EQ(file->stop(), EIO);
  EXPECT_EQ(file->stop(), EINVAL);
  expect_out_of_use(&file, before_);
}

TEST_F(LifecycleTest, ARegisterThatFailsIsAnErrorAndNoMore) {
  CardFile file(kWindowBytes);
  unsigned failed = 0;
  for (int error = EIO; error != 0; ++failed) {
    ASSERT_LT(failed, 100U);
    set_fault("fail_after", failed);
    set_fault("fail_registers", 1);
    error = file.start(file.whole_window());
    set_fault("fail_registers", 0);
    ASSERT_TRUE(error == 0 || error == EIO) << error;
    ASSERT_EQ(CardFile().info().free_queues, before_.free_queues - (error == 0 ? 1 : 0)) << failed;
  }
  EXPECT_GT(failed, 10U) << "a queue has more registers";
  EXPECT_TRUE(file.works());
}

TEST_F(LifecycleTest, AQueueThatCannotBeTakenBackIsNobodysUntilAReset) {
  constexpr unsigned kLast = 19;  // Of START's accesses: it tells whether the queue runs.
  std::optional<CardFile> file(kWindowBytes);
  set_fault("fail_after", kLast);
  set_fault("fail_registers", 100);
  EXPECT_EQ(file->start(file->whole_window()), EIO);
  set_fault("fail_registers", 0);
  expect_out_of_use(&file, before_);
}

}  // namespace
}  // namespace nearkv::test

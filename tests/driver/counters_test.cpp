// The engine's counters as the driver tells perf.
#include "card/counters.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include "removable_card.hpp"
#include "support/bench_device.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

constexpr const char* kParanoid = "/proc/sys/kernel/perf_event_paranoid";

CardCounters read(const CounterWatch& watch) {
  CardCounters counters;
  std::string reason;
  EXPECT_EQ(watch.read(&counters, &reason), Status::kOk) << reason;
  return counters;
}

/// TOTAL registers of a device's queues, in the order of CardCounters.
std::vector<std::uint64_t> totals_of(Device& device) {
  std::vector<std::uint64_t> totals;
  for (const std::uint32_t first :
       {NKV_REG_TOTAL_COMMANDS(0U), NKV_REG_TOTAL_STREAM_BURSTS(0U),
        NKV_REG_TOTAL_REFINE_BURSTS(0U), NKV_REG_TOTAL_EXACT_BURSTS(0U),
        NKV_REG_TOTAL_VALUE_BURSTS(0U), NKV_REG_TOTAL_WRITTEN_BURSTS(0U),
        NKV_REG_TOTAL_BUSY_TICKS(0U)}) {
    totals.push_back(device.read_csr(first) +
                     device.read_csr(first + NKV_REG_TOTAL_COMMANDS_STRIDE));
  }
  return totals;
}

std::vector<std::uint64_t> values_of(const CardCounters& counters) {
  return {counters.commands,     counters.stream_bursts, counters.refine_bursts,
          counters.exact_bursts, counters.value_bursts,  counters.written_bursts,
          counters.busy_ticks};
}

void run_nops(unsigned count) {
  CardFile file(64 << 10);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  for (unsigned i = 0; i < count; ++i) ASSERT_TRUE(file.works());
}

/// 0, or errno of opening an event in a process of nobody's.
int open_as_nobody(const std::string& pmu) {
  const pid_t child = ::fork();
  if (child == 0) {
    FileDescriptor event;
    std::string reason;
    // The one thing that a process of nobody's may lack is a right.
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(EINVAL);
    const Status status = open_perf_event(pmu, {}, &event, &reason);
    ::_exit(status == Status::kDenied ? EACCES : to_errno(status) == 0 ? 0 : EIO);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

class CountersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    ASSERT_EQ(watch_.open("nearkv0", &reason_), Status::kOk) << reason_;
  }

  CounterWatch watch_;
  std::string reason_;
};

TEST_F(CountersTest, AgreeWithTheQueuesTotals) {
  BenchDevice bench("linux:/dev/nearkv0?memory=8MiB");
  const KvData data = make_kv(Shape::kTopics, 4 * NKV_PAGE_TOKENS, 128, 128, 5);
  const StoredList list = append(&bench, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = make_queries(data, 2, 3.0, 7);
  // Twice, so that units of the pages come to be hot.
  for (unsigned i = 0; i < 2; ++i) {
    const nkv_attend_command command = attend_command(&bench, list, queries);
    ASSERT_EQ(attend(&bench, command).completion.status, NKV_STATUS_OK);
  }
  const std::vector<std::uint64_t> totals = totals_of(bench.device());
  EXPECT_EQ(values_of(read(watch_)), totals);
  EXPECT_EQ(totals.at(0), 3U);
  for (const std::size_t busy : {1U, 5U, 6U}) EXPECT_NE(totals.at(busy), 0U) << busy;
}

TEST_F(CountersTest, BeginWhenTheyAreOpenedAndSurviveTheirQueues) {
  run_nops(3);
  CounterWatch later;
  ASSERT_EQ(later.open("nearkv0", &reason_), Status::kOk) << reason_;
  run_nops(2);
  EXPECT_EQ(read(watch_).commands, 5U);
  EXPECT_EQ(read(later).commands, 2U);
}

TEST_F(CountersTest, NeverGoBackAsTheCardIsReset) {
  run_nops(3);
  ASSERT_TRUE(set_card_attribute("reset", "1"));
  const CardCounters before = read(watch_);
  EXPECT_EQ(before.commands, 3U);
  run_nops(1);
  const CardCounters after = read(watch_);
  EXPECT_EQ(after.commands, 4U);
  EXPECT_GT(after.busy_ticks, before.busy_ticks);
}

TEST_F(CountersTest, AreUpToDateWithinTheLagWithoutAsking) {
  FileDescriptor event;
  ASSERT_EQ(open_perf_event("nearkv0", {NKV_CARD_COUNTER_COMMANDS}, &event, &reason_), Status::kOk);
  ASSERT_EQ(enable_perf_event(event, &reason_), Status::kOk);
  run_nops(2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::uint64_t count = 0;
  while (count < 2 && std::chrono::steady_clock::now() < deadline) {
    ASSERT_EQ(::read(event.get(), &count, sizeof(count)), ssize_t{sizeof(count)});
  }
  EXPECT_EQ(count, 2U);
}

TEST_F(CountersTest, AreOfTheWholeCardAndOfNothingElse) {
  FileDescriptor event;
  for (const PerfConfig& wrong : {PerfConfig{7}, PerfConfig{0, 1}, PerfConfig{0, 0, 1}}) {
    EXPECT_EQ(open_perf_event("nearkv0", wrong, &event, &reason_), Status::kBadArgument);
  }
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = static_cast<std::uint32_t>(read_pmu_number("nearkv0", "type").value_or(0));
  const auto refused = [&attributes](int process, int processor) {
    return ::syscall(SYS_perf_event_open, &attributes, process, processor, -1, 0) < 0 &&
           errno == EINVAL;
  };
  EXPECT_TRUE(refused(0, -1));
  EXPECT_TRUE(refused(0, 0));
  attributes.sample_period = 1;
  EXPECT_TRUE(refused(-1, 0));
}

TEST_F(CountersTest, AreForWhomTheAdministratorLets) {
  std::string kept;
  std::ifstream(kParanoid) >> kept;
  const auto set_paranoid = [](const std::string& level) { std::ofstream(kParanoid) << level; };
  set_paranoid("1");
  EXPECT_EQ(open_as_nobody("nearkv0"), EACCES);
  set_paranoid("0");
  EXPECT_EQ(open_as_nobody("nearkv0"), 0);
  // Hot lists tell more.
  EXPECT_EQ(open_as_nobody("nearkv0_hotness"), EACCES);
  set_paranoid(kept);
}

TEST_F(CountersTest, StandStillWhenTheCardHasGone) {
  run_nops(2);
  EXPECT_EQ(read(watch_).commands, 2U);
  const RemovableCard card;
  card.remove();
  CardCounters counters;
  EXPECT_EQ(watch_.read(&counters, &reason_), Status::kNoDevice);
  EXPECT_EQ(CounterWatch().open("nearkv0", &reason_), Status::kNoDevice);
  card.bring_back();
  run_nops(1);
  // What is open stays with the card that has gone.
  EXPECT_EQ(read(watch_).commands, 2U);
  CounterWatch other;
  ASSERT_EQ(other.open("nearkv0", &reason_), Status::kOk) << reason_;
  run_nops(1);
  EXPECT_EQ(read(other).commands, 1U);
}

}  // namespace
}  // namespace nearkv::test

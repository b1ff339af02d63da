// The engine beside a host that uses the same memory: commands leave the model's bits, and the host
// reads what it wrote.
#include <array>
#include <numeric>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv::test {
namespace {

using emulator::HostRecord;

class RtlHostTest : public testing::TestWithParam<const char*> {
 protected:
  RtlHostTest() {
    const KvData data = make_kv(Shape::kTopics, 4 * NKV_PAGE_TOKENS, 128, 128, 5);
    model_.allocate(4096);
    list_ = append(&model_, data);
    queries_ = make_queries(data, 3, 3.0, 6);
    std::ranges::copy(model_.allocated(), engine_.window().begin());
  }

  template <typename Command>
  void expect_same(const Command& command) {
    std::ranges::copy(model_.allocated(), engine_.window().begin());
    const nkv_completion done = engine_.run(command);
    EXPECT_EQ(describe(done), describe(model_.run(command)));
    EXPECT_TRUE(
        std::ranges::equal(model_.allocated(), engine_.window().first(model_.allocated().size())));
  }

  [[nodiscard]] HostRecord record() {
    HostRecord record{};
    const std::span<std::byte> memory = engine_.device().memory();
    std::ranges::copy(memory.last(sizeof(record)),
                      std::as_writable_bytes(std::span(&record, 1)).begin());
    return record;
  }

  BenchDevice model_{"model:?memory=4MiB"};
  BenchDevice engine_{GetParam()};
  StoredList list_;
  std::vector<std::uint16_t> queries_;
};

TEST_P(RtlHostTest, CommandsAndHostSeeTheirOwn) {
  expect_same(topk_command(&model_, list_, queries_, 16, NKV_SELECT_FULL));
  expect_same(attend_command(&model_, list_, queries_));
  expect_same(pages_command(list_, NKV_OPCODE_SCRUB));
  const HostRecord host = record();
  EXPECT_EQ(host.wrong, 0U);
  EXPECT_GT(host.reads, 2000U);
  const std::uint64_t counted =
      std::accumulate(host.cycles.begin(), host.cycles.end(), std::uint64_t{0});
  EXPECT_EQ(counted, host.reads);
}

// A host's write to its queue's line is a write of SQ_TAIL. The lines here are some of those that
// the host writes with random numbers; the queues are not enabled.
TEST_P(RtlHostTest, DoorbellsInMemoryAreWritesOfTheTail) {
  Device& device = engine_.device();
  constexpr unsigned kFirst = 4;
  device.write_csr(NKV_REG_DOORBELL_BASE, device.memory().size() - emulator::kHostBytes);
  const auto tails = [&device] {
    unsigned rung = 0;
    for (unsigned i = kFirst; i < NKV_MAX_QUEUES; ++i) {
      rung += device.read_csr(NKV_REG_SQ_TAIL(i)) != 0 ? 1 : 0;
    }
    return rung;
  };
  const nkv_pages_command scrub = pages_command(list_, NKV_OPCODE_SCRUB);
  for (unsigned i = 0; i < 8; ++i) expect_same(scrub);
  EXPECT_EQ(tails(), 0U);
  device.write_csr(NKV_REG_DOORBELL_ENABLE, 0xFFFFU << kFirst & 0xFFFFU);
  for (unsigned i = 0; i < 8; ++i) expect_same(scrub);
  EXPECT_GT(tails(), 0U);
  EXPECT_EQ(record().wrong, 0U);
}

constexpr std::array kDevices = {
    "rtl:?memory=4MiB&latency=60&host=25",
    "rtl:?memory=4MiB&latency=60&host=75",
    "rtl:?memory=4MiB&latency=7&jitter=90&host=40&seed=3",
    "rtl:?memory=4MiB&dram=ddr5&host=40",
    "rtl:?memory=4MiB&dram=ddr4&latency=20&host=25",
    "rtl:?memory=4MiB&slices=2&latency=60&host=25",
    "rtl:?memory=4MiB&slices=2&latency=7&jitter=90&stall=30&host=40&seed=3",
    "rtl:?memory=192MiB&slices=2&top=afu_top&latency=60&host=25",
    "rtl:?memory=192MiB&slices=2&top=afu_top&latency=7&jitter=90&stall=30&host=40&seed=3"};

INSTANTIATE_TEST_SUITE_P(Loads, RtlHostTest, testing::ValuesIn(kDevices),
                         [](const auto& test) { return std::to_string(test.index); });

}  // namespace
}  // namespace nearkv::test

// The engine on memory with the times of DRAM: commands leave the model's bits, take longer, and
// are seen in the trace.
#include <fstream>
#include <map>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

class RtlDramTest : public testing::TestWithParam<std::string> {
 protected:
  RtlDramTest() : data_(make_kv(Shape::kTopics, 4 * NKV_PAGE_TOKENS, 128, 128, 5)) {
    model_.allocate(4096);
  }

  /// The command's cycles.
  template <typename Command>
  std::uint64_t expect_same(BenchDevice* engine, const Command& command) {
    std::ranges::copy(model_.allocated(), engine->window().begin());
    const nkv_completion done = engine->run(command);
    EXPECT_EQ(describe(done), describe(model_.run(command)));
    EXPECT_TRUE(
        std::ranges::equal(model_.allocated(), engine->window().first(model_.allocated().size())));
    return done.ticks;
  }

  KvData data_;
  BenchDevice model_{"model:?memory=4MiB"};
};

TEST_P(RtlDramTest, BitsAreTheModelsAndRefreshesCost) {
  BenchDevice fixed("rtl:?memory=4MiB&latency=60");
  BenchDevice engine("rtl:?memory=4MiB&latency=60&dram=" + GetParam());
  StoredList list;
  const auto command =
      append_command(&model_, data_, NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, 1, &list);
  expect_same(&engine, command);
  const std::vector<std::uint16_t> queries = make_queries(data_, 3, 3.0, 6);
  expect_same(&engine, topk_command(&model_, list, queries, 16, NKV_SELECT_FULL));
  expect_same(&engine, attend_command(&model_, list, queries));
  const nkv_pages_command scrub = pages_command(list, NKV_OPCODE_SCRUB);
  const std::uint64_t cycles = expect_same(&engine, scrub);
  const std::uint64_t fixed_cycles = expect_same(&fixed, scrub);
  EXPECT_GT(cycles, fixed_cycles);
  EXPECT_LT(cycles, fixed_cycles * 3 / 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RtlDramTest,
                         testing::Values("ddr4", "ddr5", "ddr5_same_bank", "hbm2e"),
                         [](const auto& test) { return test.param; });

void expect_refused(const std::string& options, const std::string& reason_part) {
  SCOPED_TRACE(options);
  std::unique_ptr<Device> device;
  std::string reason;
  EXPECT_NE(open_device("rtl:?" + options, &device, &reason), Status::kOk);
  EXPECT_NE(reason.find(reason_part), std::string::npos) << reason;
}

TEST(RtlDramOptionsTest, WhatCannotBeIsRefused) {
  expect_refused("dram=ddr6", "dram=ddr4|ddr5|ddr5_same_bank|hbm2e");
  expect_refused("dram=ddr5&jitter=4", "dram=ddr5 takes no jitter=");
  expect_refused("dram=ddr5&stall=4", "dram=ddr5 takes no jitter= or stall=");
  expect_refused("stall=100", "rtl: takes not");
  expect_refused("dram=ddr5&latency=14", "latency= of 15 cycles or more");
  expect_refused("trace=/nowhere/file", "cannot write /nowhere/file");
  expect_refused("trace=", "not \"?trace=\" but");
}

TEST(RtlTraceTest, EveryAccessIsSeenAndAnswered) {
  const TemporaryFile file("trace");
  {
    BenchDevice engine("rtl:?memory=4MiB&latency=60&trace=" + file.path().string());
    engine.allocate(4096);
    const KvData data = make_kv(Shape::kTopics, NKV_PAGE_TOKENS, 64, 64, 5);
    const StoredList list = append(&engine, data);
    engine.run(pages_command(list, NKV_OPCODE_SCRUB));
  }
  std::ifstream trace(file.path());
  std::map<std::string, std::uint64_t> counts;
  std::map<std::uint64_t, std::uint64_t> read_at;
  std::uint64_t cycle = 0;
  std::string event;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  while (trace >> cycle >> event >> first >> second) {
    ++counts[event];
    if (event == "read") read_at[first] = cycle;
    if (event == "beat") {
      EXPECT_EQ(cycle - read_at.at(first), 60U);
    }
  }
  EXPECT_EQ(counts["interrupt"], 2U);
  EXPECT_EQ(counts["read"], counts["beat"]);
  EXPECT_EQ(counts["write"], counts["answer"]);
  EXPECT_GT(counts["read"], 100U);
  EXPECT_GT(counts["write"], 100U);
  EXPECT_GT(counts["csr"], 4U);
}

}  // namespace
}  // namespace nearkv::test

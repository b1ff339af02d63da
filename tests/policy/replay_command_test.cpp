// nearkv_replay as its users run it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

struct Run {
  int status = -1;
  std::string output;
};

Run replay(const std::string& arguments) {
  Run run;
  FILE* const pipe = ::popen((NEARKV_REPLAY " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    run.output.append(buffer, got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) run.status = WEXITSTATUS(status);
  return run;
}

class ReplayCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(trace_.path()) << "{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [7]}\n"
                                    "{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [1, 2]}\n";
  }

  TemporaryFile trace_{"replay_trace"};
  TemporaryFile json_{"replay_json"};
};

TEST_F(ReplayCommandTest, WritesEveryRowAsJson) {
  const Run run = replay(trace_.path().string() + " --policy lru,arc --capacity 2 100% --json " +
                         json_.path().string());
  ASSERT_EQ(run.status, 0) << run.output;
  std::ifstream input(json_.path());
  const auto rows = nlohmann::json::parse(input);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["policy"], "lru");
  EXPECT_EQ(rows[0]["trace"], trace_.path().stem().string());
  EXPECT_EQ(rows[0]["capacity_blocks"], 2);
  EXPECT_EQ(rows[0]["blocks"], 7);
  EXPECT_EQ(rows[0]["unique_blocks"], 3);
  EXPECT_EQ(rows[0]["prefix_hits"], 3);
  EXPECT_EQ(rows[0]["bound"], 4);
  EXPECT_EQ(rows[0]["evictions"], 2);
  EXPECT_GT(rows[0]["ns_per_block"], 0);
  EXPECT_EQ(rows[2]["policy"], "belady");
  EXPECT_EQ(rows[2]["prefix_hits"], 4);
  EXPECT_TRUE(rows[2]["ns_per_block"].is_null());
  EXPECT_EQ(rows[4]["policy"], "arc");
  EXPECT_EQ(rows[4]["capacity_blocks"], 3);
  EXPECT_EQ(rows[4]["prefix_hits"], 4);
}

TEST_F(ReplayCommandTest, TellsWhatIsWrong) {
  const std::string trace = trace_.path().string();
  Run run = replay("");
  EXPECT_EQ(run.status, 2);
  run = replay(trace + " --policy mru");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.output.find("no eviction policy 'mru'"), std::string::npos) << run.output;
  run = replay(trace + " --capacity lots");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.output.find("'lots'"), std::string::npos) << run.output;
  run = replay(trace + " --block-bytes 1KiB");
  EXPECT_EQ(run.status, 2);
  run = replay(trace + ".absent");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.output.find("cannot read"), std::string::npos) << run.output;
  run = replay(trace + " --capacity 2 --json " + trace + "/results.json");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(replay("--help").status, 0);
}

}  // namespace
}  // namespace nearkv::test

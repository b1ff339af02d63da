// nearkv_replay as its users run it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

struct Ended {
  int status = -1;
  std::string output;
};

Ended replay(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), NEARKV_REPLAY);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Ended ended;
  int pipe[2];
  if (::pipe(pipe) != 0) return ended;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(pipe[0], buffer, sizeof(buffer))) > 0;) {
    ended.output.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status)) {
    ended.status = WEXITSTATUS(status);
  }
  return ended;
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
  const Ended run = replay({trace_.path(), "--policy", "lru,chain_lhd", "--capacity", "2", "100%",
                            "--json", json_.path()});
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
  EXPECT_EQ(rows[4]["policy"], "chain_lhd");
  EXPECT_EQ(rows[4]["capacity_blocks"], 3);
  EXPECT_EQ(rows[4]["prefix_hits"], 4);
}

TEST_F(ReplayCommandTest, TellsWhatIsWrong) {
  const std::string trace = trace_.path().string();
  EXPECT_EQ(replay({}).status, 2);
  Ended run = replay({trace, "--capacity", "2", "--policy", "mru"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.output.find("no eviction policy 'mru'"), std::string::npos) << run.output;
  run = replay({trace, "--capacity", "lots"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.output.find("'lots'"), std::string::npos) << run.output;
  EXPECT_EQ(replay({trace, "--block-bytes", "1KiB"}).status, 2);
  run = replay({trace + ".absent"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.output.find("cannot read"), std::string::npos) << run.output;
  EXPECT_EQ(replay({trace, "--capacity", "2", "--json", trace + "/results.json"}).status, 1);
  EXPECT_EQ(replay({"--help"}).status, 0);
}

}  // namespace
}  // namespace nearkv::test

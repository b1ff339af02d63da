// What is refused names what would mend it.
#include <gtest/gtest.h>

#include <fstream>

#include "simulation.hpp"
#include "support/temporary_folder.hpp"

namespace nearkv::traces::test {
namespace {

std::string refused_cluster(const std::string& text) {
  Cluster cluster;
  std::string reason;
  EXPECT_EQ(parse_cluster(text, "c.toml", &cluster, &reason), Status::kBadArgument) << text;
  return reason;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(BadCluster, NamesTheLineTheKeyAndWhatIsAllowed) {
  EXPECT_HAS(refused_cluster("[gpu]\nflop = 1"), "c.toml:2: gpu.flop: no such key; allowed here");
  EXPECT_HAS(refused_cluster("[gpus]\ncount = 1"), "gpus: no such key; allowed here are \"name\"");
  EXPECT_HAS(refused_cluster("[engine]\npolicy = \"lifo\""), "allowed are \"orca\", \"sarathi\"");
  EXPECT_HAS(refused_cluster("[engine]\neviction = \"x\""), "\"step_graph\"");
  EXPECT_HAS(refused_cluster("[gpu]\ncount = -1"), "a number from 1 to");
  EXPECT_HAS(refused_cluster("[gpu]\ncount = nan"), "a number from 1 to");
  EXPECT_HAS(refused_cluster("[gpu\n"), "c.toml:1: not TOML");
  EXPECT_HAS(refused_cluster("[[tiers]]\ncapacity_bytes = 1"), "each tier has a name of its own");
  EXPECT_HAS(refused_cluster("[[tiers]]\nname = \"a\""), "capacity_bytes: it is missing");
  EXPECT_HAS(refused_cluster("[engine]\nreplicas = 2\nprefill_replicas = 2"),
             "fewer than replicas are allowed");
  EXPECT_HAS(refused_cluster("[[gpu.measured_prefill]]\ntokens = 5"), "tokens and seconds");
}

TEST(BadCluster, FailuresOfReplicasThatAreNone) {
  EXPECT_HAS(refused_cluster("[engine]\nreplicas = 2\n[[failures]]\nreplica = 2"),
             "c.toml:4: failures.replica: a whole number from 0 to 1");
  EXPECT_HAS(refused_cluster("[[failures]]\nat_s = -1"), "failures.at_s: a number from 0");
}

TEST(BadCluster, AModelThatDoesNotFitNamesTheMend) {
  EXPECT_HAS(refused_cluster("[model]\nparameters = 70e9"),
             "more gpu.count or gpu.hbm_bytes, or engine.pool_bytes");
}

TEST(BadCluster, UnknownKindsOfWorkloads) {
  WorkloadConfig config;
  std::string reason;
  EXPECT_EQ(parse_workload("[workload]\nkind = \"bursts\"", "c.toml", &config, &reason),
            Status::kBadArgument);
  EXPECT_HAS(reason, "allowed are \"poisson\", \"closed\"");
  EXPECT_EQ(parse_workload("[workload]\nrate = 1", "c.toml", &config, &reason),
            Status::kBadArgument);
  EXPECT_HAS(reason, "workload.rate: no such key");
}

std::string request(int at_ms, int prompt_tokens, const std::string& hash_ids) {
  return R"({"timestamp": )" + std::to_string(at_ms) + R"(, "output_length": 1, "input_length": )" +
         std::to_string(prompt_tokens) + R"(, "hash_ids": )" + hash_ids + "}\n";
}

class BadTrace : public testing::Test {
 protected:
  std::string refused(const std::string& text, std::uint64_t block_tokens = 512) {
    const std::string path = folder_.file("trace.jsonl");
    std::ofstream(path) << text;
    WorkloadConfig config{.kind = "trace", .traces = {path}, .block_tokens = block_tokens};
    std::unique_ptr<Workload> workload;
    std::string reason;
    EXPECT_EQ(make_workload(config, &workload, &reason), Status::kBadArgument);
    return reason;
  }

  nearkv::test::TemporaryFolder folder_;
};

TEST_F(BadTrace, NegativeTimes) {
  EXPECT_HAS(refused(request(0, 512, "[1]") + request(-3, 512, "[1]")),
             "line 2: timestamp is not a whole number of milliseconds");
}

TEST_F(BadTrace, TimesOutOfOrder) {
  EXPECT_HAS(refused(request(9, 512, "[1]") + request(3, 512, "[1]")),
             "sort the lines by timestamp");
}

TEST_F(BadTrace, FieldsOfOtherNames) {
  EXPECT_HAS(refused(R"({"timestamp": 0, "input_tokens": 512, "hash_ids": [1]})"),
             "line 1: input_length is missing");
}

TEST_F(BadTrace, BlocksThatDoNotDivideTheTraces) {
  EXPECT_HAS(refused(request(0, 512, "[1]"), 48), "it must divide the trace's blocks of 512");
}

TEST_F(BadTrace, BlocksOfAnotherSizeThanItIsSaidToHave) {
  for (const char* const ids : {"[1, 2, 3]", "[1, 2, 3, 4, 5, 6]"}) {
    EXPECT_HAS(refused(request(0, 512, "[1]") + request(1, 2100, ids)),
               "for 2100 tokens, which is no trace of blocks of 512; say its size by "
               "workload.trace_block_tokens");
  }
}

TEST_F(BadTrace, NoFile) {
  WorkloadConfig config{.kind = "trace"};
  std::unique_ptr<Workload> workload;
  std::string reason;
  EXPECT_EQ(make_workload(config, &workload, &reason), Status::kBadArgument);
  EXPECT_HAS(reason, "--trace FILE");
  config.traces = {"/nowhere/trace.jsonl"};
  EXPECT_EQ(make_workload(config, &workload, &reason), Status::kIoError);
}

TEST(BadLoad, AHundredThousandTokensForASmallPool) {
  Cluster cluster;
  cluster.engine.pool_bytes = 50'000 * cluster.model.kv_bytes_per_token;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Simulation> simulation;
  std::string reason;
  ASSERT_EQ(make_workload({.requests = 3, .prompt_tokens = 100'000}, &workload, &reason),
            Status::kOk);
  ASSERT_EQ(Simulation::open(cluster, 0, workload.get(), &simulation, &reason), Status::kOk);
  EXPECT_EQ(simulation->run(&reason), Status::kPoolFull);
  EXPECT_HAS(reason, "request 0: a prompt of 100000 tokens");
  EXPECT_HAS(reason, "enlarge the pool, or shorten the request");
}

TEST(BadLoad, PrefillAloneNeedsATierBetween) {
  Cluster cluster;
  cluster.engine.replicas = 2;
  cluster.engine.prefill_replicas = 1;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Simulation> simulation;
  std::string reason;
  ASSERT_EQ(make_workload({}, &workload, &reason), Status::kOk);
  EXPECT_EQ(Simulation::open(cluster, 0, workload.get(), &simulation, &reason),
            Status::kBadArgument);
  EXPECT_HAS(reason, "needs a shared tier");
}

}  // namespace
}  // namespace nearkv::traces::test

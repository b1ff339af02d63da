// nearkv_replay: request traces against eviction policies.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capacity.hpp"
#include "device/uri.hpp"
#include "policy/eviction_policy.hpp"
#include "replay.hpp"
#include "trace.hpp"

namespace nearkv::replay {
namespace {

constexpr std::uint64_t kLeastBlockBytes = 4096;
constexpr std::uint64_t kMostBlockBytes = 64ULL << 20;

constexpr const char* kDescription =
    R"(Replays request traces against a tier of KV blocks and tells what each eviction
policy would have served.

A request looks up its longest prefix in the tier, which are its hits; then all
its blocks are stored. The bound is the hits of a tier that never evicts. belady
knows the future: no policy has more hits at that capacity.)";

constexpr const char* kEpilog =
    R"(A trace has a JSON object a line, whose hash_ids are the ids of the prompt's
blocks in order, equal ids meaning equal prefixes (Mooncake's format).

examples:
  nearkv_replay trace.jsonl
  nearkv_replay trace.jsonl --policy lru chain_lhd --capacity 500 5% 64GiB
  nearkv_replay a.jsonl b.jsonl --json results.json

exit status: 0 replayed; 1 a trace cannot be read or the results not be written;
2 wrong usage.)";

struct Options {
  std::vector<std::string> traces;
  std::vector<std::string> policies;
  std::vector<std::string> capacities{"1%", "2%", "5%", "10%", "20%", "40%"};
  std::string block_bytes_text = "1MiB";
  std::uint32_t block_bytes = 0;
  std::string json;
};

int fail(int status, const std::string& message) {
  std::cerr << "nearkv_replay: " << message << "\n";
  return status;
}

class Report {
 public:
  Report(std::string trace_name, const Trace& trace)
      : trace_name_(std::move(trace_name)), trace_(trace), bound_(infinite_hits(trace)) {
    std::printf("%s: %zu requests, %zu blocks, %zu unique; bound: %.1f %% of blocks\n",
                trace_name_.c_str(), trace.requests(), trace.blocks.size(), trace.hash_ids.size(),
                percent(bound_, trace.blocks.size()));
    std::printf("%12s  %-12s %8s %10s %12s %9s\n", "blocks held", "policy", "hits", "of bound",
                "evictions", "ns/block");
  }

  /// Prints a row. Belady's choice takes no time that would mean something.
  void add(const std::string& policy, std::uint64_t capacity_blocks, const Outcome& outcome,
           bool is_timed) {
    std::printf("%12lu  %-12s %6.1f %% %8.1f %% %12lu ", capacity_blocks, policy.c_str(),
                percent(outcome.prefix_hits, trace_.blocks.size()),
                percent(outcome.prefix_hits, bound_), outcome.evictions);
    if (is_timed) std::printf("%9.0f", outcome.ns_per_block);
    std::printf("\n");
    rows_.push_back({{"trace", trace_name_},
                     {"policy", policy},
                     {"capacity_blocks", capacity_blocks},
                     {"blocks", trace_.blocks.size()},
                     {"unique_blocks", trace_.hash_ids.size()},
                     {"prefix_hits", outcome.prefix_hits},
                     {"bound", bound_},
                     {"evictions", outcome.evictions},
                     {"ns_per_block", nullptr}});
    if (is_timed) rows_.back()["ns_per_block"] = outcome.ns_per_block;
  }

  [[nodiscard]] const nlohmann::json& rows() const { return rows_; }

 private:
  static double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }

  std::string trace_name_;
  const Trace& trace_;
  std::uint64_t bound_;
  nlohmann::json rows_ = nlohmann::json::array();
};

int replay_trace(const Options& options, const std::string& path, nlohmann::json* rows) {
  Trace trace;
  std::string reason;
  if (load_trace(path, TraceNeeds::kBlocks, &trace, &reason) != Status::kOk) {
    return fail(1, reason);
  }
  std::vector<std::uint64_t> capacities(options.capacities.size());
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    if (!parse_capacity(options.capacities[i], trace.hash_ids.size(), options.block_bytes,
                        &capacities[i], &reason)) {
      return fail(2, reason);
    }
  }
  Report report(std::filesystem::path(path).stem().string(), trace);
  for (const std::uint64_t capacity_blocks : capacities) {
    for (const std::string& name : options.policies) {
      std::unique_ptr<EvictionPolicy> policy;
      if (make_eviction_policy(name, capacity_blocks * options.block_bytes, {}, &policy, &reason) !=
          Status::kOk) {
        return fail(2, reason);
      }
      report.add(name, capacity_blocks,
                 replay(trace, policy.get(), capacity_blocks, options.block_bytes), true);
    }
    report.add("belady", capacity_blocks, belady(trace, capacity_blocks), false);
  }
  rows->insert(rows->end(), report.rows().begin(), report.rows().end());
  return 0;
}

int run(Options options) {
  std::uint64_t block_bytes = 0;
  if (parse_size(options.block_bytes_text, &block_bytes) != Status::kOk ||
      block_bytes < kLeastBlockBytes || block_bytes > kMostBlockBytes) {
    return fail(2, "--block-bytes must be from 4KiB to 64MiB");
  }
  options.block_bytes = static_cast<std::uint32_t>(block_bytes);
  if (options.policies.empty()) {
    for (const auto& shipped : shipped_eviction_policies()) {
      options.policies.push_back(shipped.name);
    }
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& path : options.traces) {
    if (const int status = replay_trace(options, path, &rows); status != 0) return status;
  }
  if (options.json.empty()) return 0;
  std::ofstream output(options.json);
  output << rows.dump(2) << "\n";
  output.close();
  return output ? 0 : fail(1, "cannot write " + options.json);
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "nearkv_replay");
  app.footer(kEpilog);
  app.add_option("TRACE", options.traces, "files of requests")->required();
  app.add_option("--policy", options.policies, "policies by name; all that ship by default")
      ->delimiter(',');
  app.add_option("--capacity", options.capacities,
                 "blocks (500), a share of the trace's unique blocks (5%) or bytes (64GiB)")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--block-bytes", options.block_bytes_text,
                 "bytes of a block, for capacities in bytes")
      ->capture_default_str();
  app.add_option("--json", options.json,
                 "writes a list of objects to this file: trace, policy, capacity_blocks, blocks, "
                 "unique_blocks, prefix_hits, bound, evictions, ns_per_block");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(std::move(options));
}

}  // namespace
}  // namespace nearkv::replay

int main(int argc, char** argv) {
  try {
    return nearkv::replay::parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nearkv_replay: %s\n", error.what());
    return 1;
  }
}

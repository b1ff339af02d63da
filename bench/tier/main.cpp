// nearkv_tier_bench: the object store as its users see it, beside memcpy and the project's goals.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>

#include "cases.hpp"

namespace {

using namespace nearkv::tier_bench;

void add_trace_options(CLI::App* command, TraceOptions* options) {
  command->add_option("TRACE", options->traces, "Requests with timestamp and hash_ids, one a line")
      ->required()
      ->check(CLI::ExistingFile);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Measures the object store through its public interface.", "nearkv_tier_bench");
  app.require_subcommand(1);
  std::string json_path;
  app.add_option("--json", json_path, "Write the rows to this file");
  Rows rows;

  CopyOptions copies;
  std::size_t working_set_mib = copies.working_set_bytes >> 20;
  std::vector<std::size_t> object_kib{256, 512, 1024, 2048};
  CLI::App* command = app.add_subcommand("copies", "set and get in memory beside memcpy");
  command->add_option("--working-set-mib", working_set_mib, "Sources, and as much of targets")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--object-kib", object_kib, "Sizes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--batch", copies.batch, "Objects of a job")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rounds", copies.rounds, "Of which medians are taken")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([&] {
    copies.working_set_bytes = working_set_mib << 20;
    copies.object_bytes.clear();
    for (const std::size_t kib : object_kib) copies.object_bytes.push_back(kib << 10);
    compare_copies(copies, &rows);
  });

  LookupOptions lookups;
  command = app.add_subcommand("lookups", "exists, longest prefixes and a restart");
  command->add_option("--objects", lookups.objects, "In the store")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--folder", lookups.folder, "Of the store's file")
      ->check(CLI::ExistingDirectory);
  command->add_option("--rounds", lookups.rounds, "Of which medians are taken")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", lookups.seed, "Of what is drawn")->capture_default_str();
  command->callback([&] { measure_lookups(lookups, &rows); });

  TraceOptions traces;
  command = app.add_subcommand("fragmentation", "What slabs lose over simulated hours");
  add_trace_options(command, &traces);
  command->add_option("--hours", traces.hours, "Simulated")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--scale", traces.scale, "Objects have 1/SCALE of a block's bytes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--thin", traces.thin, "One conversation of so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--day-speed", traces.day_speed, "Times as fast as a day, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([&] { measure_fragmentation(traces, &rows); });

  command = app.add_subcommand("replay", "Requests at a multiple of their pace");
  add_trace_options(command, &traces);
  command->add_option("--speed", traces.speed, "Times the pace of the trace")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--policy", traces.policies, "Of eviction")->capture_default_str();
  command->add_option("--capacity", traces.capacity, "Share of the unique blocks held")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--block-bytes", traces.block_bytes, "Of an object")
      ->check(CLI::Range(4096, 64 << 20))
      ->capture_default_str();
  command->add_option("--requests", traces.most_requests, "The first so many; 0: all")
      ->capture_default_str();
  command->callback([&] { measure_paced_replay(traces, &rows); });

  TurnOptions turns;
  command = app.add_subcommand("turns", "Serves orders on standard input, for bench/peers");
  command->add_option("--object-bytes", turns.object_bytes)->capture_default_str();
  command->add_option("--objects", turns.objects)->capture_default_str();
  command->add_option("--batch", turns.batch)->capture_default_str();
  command->add_option("--path", turns.path, "A file to map instead of anonymous memory");
  command->callback([&] { take_turns(turns); });

  CLI11_PARSE(app, argc, argv);
  if (json_path.empty() || rows.write_json(json_path)) return 0;
  std::fprintf(stderr, "nearkv_tier_bench: cannot write %s\n", json_path.c_str());
  return 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "nearkv_tier_bench: %s\n", failure.what());
  return 1;
}

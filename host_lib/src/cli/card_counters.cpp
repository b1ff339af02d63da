// nearkv card counters
#include <iostream>

#include "card/counters.hpp"
#include "cli/card_command.hpp"
#include "cli/card_watch.hpp"
#include "cli/command.hpp"
#include "nkv_abi.h"

namespace nearkv::cli {
namespace {

constexpr const char* kCountersFooter =
    "DESCRIPTION\n"
    "  Shows what a card's engine does meanwhile, summed over all queues. `perf stat` counts the\n"
    "  same: its events are nearkv0/commands/ and so on. Needs CAP_PERFMON, or a\n"
    "  kernel.perf_event_paranoid of 0 or less.\n\n"
    "EXAMPLES\n"
    "  nearkv card counters nearkv0\n"
    "  nearkv card counters nearkv0 --seconds 10 --json\n";

struct CountersOptions {
  std::string card;
  double seconds = 1;
  bool json = false;
};

void show(const CountersOptions& options) {
  using namespace std::chrono_literals;
  CounterWatch watch;
  CardCounters counters;
  std::string reason;
  if (watch.open(options.card, &reason) != Status::kOk) throw Failure{reason};
  const Look look(options.seconds);
  while (look.pause(1s)) {
  }
  const double seconds = look.seconds();
  if (watch.read(&counters, &reason) != Status::kOk) throw Failure{reason};
  const std::pair<const char*, std::uint64_t> bursts[] = {
      {"stream_bursts", counters.stream_bursts},
      {"refine_bursts", counters.refine_bursts},
      {"exact_bursts", counters.exact_bursts},
      {"value_bursts", counters.value_bursts},
      {"written_bursts", counters.written_bursts}};
  if (options.json) {
    nlohmann::ordered_json json{
        {"card", options.card}, {"seconds", seconds}, {"commands", counters.commands}};
    for (const auto& [name, count] : bursts) json[name] = count;
    json["busy_ticks"] = counters.busy_ticks;
    print_json(json);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"commands", count_text(counters.commands), "-"});
  for (const auto& [name, count] : bursts) {
    rows.push_back({name, count_text(count), size_text(count * NKV_BURST_BYTES)});
  }
  rows.push_back({"busy_ticks", count_text(counters.busy_ticks), "-"});
  print_table({"COUNTER", "COUNT", "BYTES"}, rows);
}

}  // namespace

void add_card_counters(CLI::App* command, int* exit) {
  CLI::App* const counters = command->add_subcommand("counters", "What its engine does meanwhile");
  counters->footer(kCountersFooter);
  auto options = std::make_shared<CountersOptions>();
  add_card_option(counters, &options->card);
  add_seconds_option(counters, &options->seconds);
  counters->add_flag("--json", options->json, "Print JSON");
  counters->callback([options, exit] {
    show(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

// nearkv card hotlist
#include <algorithm>
#include <iostream>
#include <map>

#include "card/card.hpp"
#include "card/hotness.hpp"
#include "cli/card_watch.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kFooter =
    "DESCRIPTION\n"
    "  Shows which parts of a card's memory are used most: units that had at least the threshold\n"
    "  of accesses within an epoch, those first that had it in the most epochs. The monitor "
    "`near`\n"
    "  counts what the engine's commands read, in runs of up to 16 bursts; `host` counts what the\n"
    "  host reads and writes over the link. Needs CAP_PERFMON, and the monitor for itself.\n\n"
    "EXAMPLES\n"
    "  nearkv card hotlist nearkv0\n"
    "  nearkv card hotlist nearkv0 --monitor host --threshold 1000 --seconds 10\n"
    "  nearkv card hotlist nearkv0 --unit 8192 --json\n";

struct Options {
  std::string card;
  HotnessOptions hotness;
  double epoch_s = 0.1;
  double seconds = 1;
  bool json = false;
};

struct Heat {
  std::uint64_t address = 0;  ///< In device memory.
  std::uint64_t epochs = 0;   ///< In which it was listed.
  std::uint64_t count = 0;    ///< Accesses that this took.
};

/// Hottest first.
std::vector<Heat> sort_heats(const std::vector<HotUnit>& units) {
  std::map<std::uint64_t, Heat> by_address;
  for (const HotUnit& unit : units) {
    Heat& heat = by_address[unit.address];
    heat.address = unit.address;
    heat.count += unit.count;
    ++heat.epochs;
  }
  std::vector<Heat> heats;
  heats.reserve(by_address.size());
  for (const auto& [address, heat] : by_address) heats.push_back(heat);
  std::ranges::stable_sort(heats, std::ranges::greater(), &Heat::epochs);
  return heats;
}

void print(const Options& options, const std::vector<Heat>& heats, double seconds, bool has_lost) {
  const bool is_near = options.hotness.monitor == NKV_CARD_MONITOR_NEAR;
  if (options.json) {
    nlohmann::ordered_json json{{"card", options.card},
                                {"monitor", is_near ? "near" : "host"},
                                {"unit_bytes", options.hotness.unit_bytes},
                                {"threshold", options.hotness.threshold},
                                {"epoch_s", options.epoch_s},
                                {"seconds", seconds},
                                {"has_lost", has_lost},
                                {"units", nlohmann::ordered_json::array()}};
    for (const Heat& heat : heats) {
      json["units"].push_back(
          {{"address", heat.address}, {"epochs", heat.epochs}, {"count", heat.count}});
    }
    print_json(json);
    return;
  }
  // Where the host sees the card's memory, if it does.
  const std::vector<Card> cards = find_cards();
  const auto card = std::ranges::find(cards, options.card, &Card::name);
  const bool is_attached = card != cards.end() && card->memory_bytes != 0;
  std::vector<std::vector<std::string>> rows;
  rows.reserve(heats.size());
  for (const Heat& heat : heats) {
    rows.push_back({address_text(heat.address),
                    is_attached ? address_text(card->memory_at + heat.address) : "-",
                    std::to_string(heat.epochs), count_text(heat.count)});
  }
  print_table({"IN DEVICE", "ON HOST", "EPOCHS", "ACCESSES"}, rows);
  if (has_lost) std::cout << "and more, for the monitor's list was full; try a higher threshold\n";
}

void show(Options options) {
  using namespace std::chrono_literals;
  options.hotness.epoch =
      std::chrono::round<std::chrono::microseconds>(std::chrono::duration<double>(options.epoch_s));
  HotnessWatch watch;
  std::vector<HotUnit> units;
  std::string reason;
  const auto take = [&] {
    if (watch.take(&units, &reason) != Status::kOk) throw Failure{reason};
  };
  const Status status = watch.open(options.card, options.hotness, &reason);
  if (status != Status::kOk) {
    throw Failure{reason, status == Status::kBadArgument ? kUsage : kFailed};
  }
  const Look look(options.seconds);
  while (look.pause(std::chrono::milliseconds(NKV_CARD_LAG_MS))) take();
  const double seconds = look.seconds();
  // What was listed last is still on its way.
  std::this_thread::sleep_for(2ms * NKV_CARD_LAG_MS);
  take();
  print(options, sort_heats(units), seconds, watch.has_lost());
}

}  // namespace

void add_card_hotlist(CLI::App* command, int* exit) {
  CLI::App* const hotlist = command->add_subcommand("hotlist", "Parts of its memory used most");
  hotlist->footer(kFooter);
  auto options = std::make_shared<Options>();
  add_card_option(hotlist, &options->card);
  const std::map<std::string, nkv_card_monitor> monitors{{"near", NKV_CARD_MONITOR_NEAR},
                                                         {"host", NKV_CARD_MONITOR_HOST}};
  hotlist->add_option("--monitor", options->hotness.monitor, "Whose accesses: near or host")
      ->transform(CLI::Transformer(monitors))
      ->default_str("near");
  hotlist->add_option("--unit", options->hotness.unit_bytes, "Bytes that are counted as one")
      ->capture_default_str();
  hotlist
      ->add_option("--threshold", options->hotness.threshold,
                   "Accesses in an epoch from which on a unit is hot")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  hotlist->add_option("--epoch", options->epoch_s, "Its length in seconds, by the card's clock")
      ->check(CLI::Range(1e-4, 4095.0))
      ->capture_default_str();
  add_seconds_option(hotlist, &options->seconds);
  hotlist->add_flag("--json", options->json, "Print JSON");
  hotlist->callback([options, exit] {
    show(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

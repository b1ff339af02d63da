// nearkv card hotlist
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "card/card.hpp"
#include "card/hotness.hpp"
#include "card/hotness_list.hpp"
#include "cli/card_command.hpp"
#include "cli/card_watch.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kHotlistFooter =
    "DESCRIPTION\n"
    "  Shows which parts of a card's memory are used most: units that had at least the threshold\n"
    "  of accesses within an epoch, those first that had it in the most epochs. The monitor "
    "`near`\n"
    "  counts what the engine's commands read, in runs of up to 16 bursts; `host` counts what the\n"
    "  host reads and writes over the link. Needs CAP_PERFMON, and the monitor for itself.\n\n"
    "  With --firmware it takes no monitor, and shows what the card's firmware found in its last\n"
    "  epoch, those first that came to the threshold first. It counts while nobody on the host "
    "does,\n"
    "  as `nearkv card features` sets hotness. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card hotlist nearkv0\n"
    "  nearkv card hotlist nearkv0 --monitor host --threshold 1000 --seconds 10\n"
    "  nearkv card hotlist nearkv0 --unit 8192 --json\n"
    "  nearkv card hotlist nearkv0 --firmware\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  failed; 2  wrong usage\n";

struct HotlistOptions {
  std::string card;
  HotnessOptions hotness;
  double epoch_s = 0.1;
  double seconds = 1;
  bool firmware = false;
  bool json = false;
};

std::string monitor_text(const HotlistOptions& options) {
  return options.hotness.monitor == NKV_CARD_MONITOR_NEAR ? "near" : "host";
}

/// Where the host sees an address of the card's memory, if it does.
class HostView {
 public:
  explicit HostView(const std::string& name) {
    const std::vector<Card> cards = find_cards();
    const auto card = std::ranges::find(cards, name, &Card::name);
    if (card != cards.end() && card->memory_bytes != 0) memory_at_ = card->memory_at;
  }
  [[nodiscard]] std::string text(std::uint64_t address) const {
    return memory_at_ ? address_text(*memory_at_ + address) : "-";
  }

 private:
  std::optional<std::uint64_t> memory_at_;
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

void print(const HotlistOptions& options, const std::vector<Heat>& heats, double seconds,
           bool has_lost) {
  if (options.json) {
    nlohmann::ordered_json json{{"card", options.card},
                                {"monitor", monitor_text(options)},
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
  const HostView host(options.card);
  std::vector<std::vector<std::string>> rows;
  rows.reserve(heats.size());
  for (const Heat& heat : heats) {
    rows.push_back({address_text(heat.address), host.text(heat.address),
                    std::to_string(heat.epochs), count_text(heat.count)});
  }
  print_table({"IN DEVICE", "ON HOST", "EPOCHS", "ACCESSES"}, rows);
  if (has_lost) std::cout << "and more, for the monitor's list was full; try a higher threshold\n";
}

void show(HotlistOptions options) {
  using namespace std::chrono_literals;
  options.hotness.epoch =
      std::chrono::round<std::chrono::microseconds>(std::chrono::duration<double>(options.epoch_s));
  HotnessWatch watch;
  std::vector<HotUnit> units;
  std::string reason;
  const auto take = [&] {
    if (watch.take(&units, &reason) != Status::kOk) throw Failure{reason};
  };
  require_done(watch.open(options.card, options.hotness, &reason), reason);
  const Look look(options.seconds);
  while (look.pause(std::chrono::milliseconds(NKV_CARD_LAG_MS))) take();
  const double seconds = look.seconds();
  // What was listed last is still on its way.
  std::this_thread::sleep_for(2ms * NKV_CARD_LAG_MS);
  take();
  print(options, sort_heats(units), seconds, watch.has_lost());
}

void show_firmware(const HotlistOptions& options) {
  CardMailbox mailbox;
  nkv_hotness_list list{};
  std::string reason;
  open_mailbox(options.card, &mailbox);
  require_done(read_hotness_list(&mailbox, options.hotness.monitor, &list, &reason), reason);
  const std::string state = name_of(static_cast<nkv_hotness_state>(list.state));
  const std::span addresses(list.addresses, list.units);
  if (options.json) {
    nlohmann::ordered_json json{{"card", options.card},
                                {"monitor", monitor_text(options)},
                                {"state", state},
                                {"epochs", list.epochs},
                                {"epoch_s", list.epoch_ms / 1e3},
                                {"end_s", static_cast<double>(list.end_ns) / 1e9},
                                {"unit_bytes", list.epochs == 0 ? 0 : 1ULL << list.unit_log2},
                                {"threshold", list.threshold},
                                {"listed", list.listed},
                                {"has_lost", list.has_lost != 0},
                                {"units", nlohmann::ordered_json::array()}};
    for (const std::uint64_t address : addresses) json["units"].push_back({{"address", address}});
    print_json(json);
    return;
  }
  std::cout << "monitor " << monitor_text(options) << ": " << state;
  if (list.epochs == 0) {
    std::cout << ", no epoch yet\n";
    return;
  }
  std::cout << ", epoch " << list.epochs << ": " << list.listed << " units of "
            << size_text(1ULL << list.unit_log2) << " had " << count_text(list.threshold)
            << " accesses in " << list.epoch_ms << " ms\n";
  const HostView host(options.card);
  std::vector<std::vector<std::string>> rows;
  rows.reserve(addresses.size());
  for (const std::uint64_t address : addresses) {
    rows.push_back({address_text(address), host.text(address)});
  }
  print_table({"IN DEVICE", "ON HOST"}, rows);
}

}  // namespace

void add_card_hotlist(CLI::App* command, int* exit) {
  CLI::App* const hotlist = command->add_subcommand("hotlist", "Parts of its memory used most");
  hotlist->footer(kHotlistFooter);
  auto options = std::make_shared<HotlistOptions>();
  add_card_option(hotlist, &options->card);
  const std::map<std::string, nkv_card_monitor> monitors{{"near", NKV_CARD_MONITOR_NEAR},
                                                         {"host", NKV_CARD_MONITOR_HOST}};
  hotlist->add_option("--monitor", options->hotness.monitor, "Whose accesses: near or host")
      ->transform(CLI::Transformer(monitors))
      ->default_str("near");
  CLI::Option* const firmware =
      hotlist->add_flag("--firmware", options->firmware, "What the firmware found without a host");
  hotlist->add_option("--unit", options->hotness.unit_bytes, "Bytes that are counted as one")
      ->capture_default_str()
      ->excludes(firmware);
  hotlist
      ->add_option("--threshold", options->hotness.threshold,
                   "Accesses in an epoch from which on a unit is hot")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->excludes(firmware);
  hotlist->add_option("--epoch", options->epoch_s, "Its length in seconds, by the card's clock")
      ->check(CLI::Range(1e-4, 4095.0))
      ->capture_default_str()
      ->excludes(firmware);
  add_seconds_option(hotlist, &options->seconds);
  hotlist->get_option("--seconds")->excludes(firmware);
  hotlist->add_flag("--json", options->json, "Print JSON");
  hotlist->callback([options, exit] {
    if (options->firmware) {
      show_firmware(*options);
    } else {
      show(*options);
    }
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

// nearkv card events, nearkv card poison
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "card/card.hpp"
#include "card/memory_events.hpp"
#include "cli/card_command.hpp"
#include "cli/card_watch.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr const char* kEventsFooter =
    "DESCRIPTION\n"
    "  Shows what the module of a card reports while this command looks: poison, media events,\n"
    "  changes of its health, errors of its link. Each has the status that it means for who uses\n"
    "  the memory: POISON, the bytes at the address are lost; NO_DEVICE, the module is, and its\n"
    "  region has to be made and attached again; OK, nothing is. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card events nearkv0 --seconds 60\n"
    "  nearkv card events nearkv0 --follow --json     a line of JSON for each\n\n"
    "EXIT STATUS\n"
    "  0  nothing was lost; 1  failed; 2  wrong usage; 3  an event told of a loss\n";

constexpr const char* kPoisonFooter =
    "DESCRIPTION\n"
    "  Asks the module of a card which lines of its memory are poisoned. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card poison nearkv0\n\n"
    "EXIT STATUS\n"
    "  0  none is; 1  failed; 2  wrong usage; 3  some are\n";

struct EventsOptions {
  std::string card;
  double seconds = 1;
  bool is_followed = false;
  bool json = false;
};

/// The name of a card's module.
std::string require_module(const std::string& name) {
  const std::vector<Card> cards = find_cards();
  const auto found = std::ranges::find(cards, name, &Card::name);
  if (found == cards.end()) {
    throw Failure{"there is no card '" + name + "'; `nearkv card list` shows cards"};
  }
  if (!found->module_) {
    throw Failure{name + ": no CXL module has its serial number; `cxl list -M` shows those " +
                  "there are"};
  }
  return found->module_->name;
}

const char* status_name(Status status) {
  return nkv_status_name(static_cast<std::uint8_t>(status));
}

Json to_json(const MemoryEvent& event) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"time_ns", event.time_ns},
          {"module", event.module},
          {"kind", name_of(event.kind)},
          {"log", event.log == MemoryEventLog::kNone ? Json(nullptr) : Json(name_of(event.log))},
          {"address", or_null(event.address)},
          {"bytes", event.bytes},
          {"machine_address", or_null(event.machine_address)},
          {"region", event.region.empty() ? Json(nullptr) : Json(event.region)},
          {"what", event.what},
          {"status", status_name(event.status)}};
}

void print(const MemoryEvent& event, bool json) {
  if (json) {
    print_json(to_json(event), /*is_line=*/true);
    return;
  }
  std::cout << '[' << std::fixed << std::setprecision(6) << std::setw(12)
            << static_cast<double>(event.time_ns) / 1e9 << "] " << printable_text(event.module)
            << ' ' << name_of(event.kind);
  if (event.log != MemoryEventLog::kNone) std::cout << " (" << name_of(event.log) << ')';
  if (event.address) std::cout << " at " << address_text(*event.address);
  std::cout << ": " << printable_text(event.what) << ": " << status_name(event.status) << '\n'
            << std::flush;
}

/// Whether none of the events told of a loss.
bool follow(const EventsOptions& options) {
  constexpr double kForEver = 1e9;
  const std::string module = require_module(options.card);
  MemoryEventWatch watch;
  std::string reason;
  if (watch.open(module, &reason) != Status::kOk) throw Failure{reason};
  const Look look(options.is_followed ? kForEver : options.seconds);
  std::cerr << "nearkv: looking at events of " << module << '\n';
  bool is_fine = true;
  while (look.pause(0ms)) {
    std::vector<MemoryEvent> events;
    const Status status = watch.poll(100ms, &events, &reason);
    if (status != Status::kOk && status != Status::kTimeout) throw Failure{reason};
    for (const MemoryEvent& event : events) {
      print(event, options.json);
      is_fine = is_fine && event.status == Status::kOk;
    }
  }
  if (watch.has_lost()) std::cerr << "nearkv: more came than the kernel had room for\n";
  return is_fine;
}

/// Whether there is none.
bool show_poison(const EventsOptions& options) {
  std::vector<MemoryEvent> poison;
  std::string reason;
  if (list_poison(require_module(options.card), &poison, &reason) != Status::kOk) {
    throw Failure{reason};
  }
  if (options.json) {
    Json all = Json::array();
    for (const MemoryEvent& event : poison) all.push_back(to_json(event));
    print_json(all);
  } else {
    std::vector<std::vector<std::string>> rows;
    rows.reserve(poison.size());
    for (const MemoryEvent& event : poison) {
      rows.push_back({event.address ? address_text(*event.address) : "-", count_text(event.bytes),
                      event.machine_address ? address_text(*event.machine_address) : "-",
                      event.region.empty() ? "-" : event.region, event.what});
    }
    print_table({"IN DEVICE", "BYTES", "ON HOST", "REGION", "POISON"}, rows);
  }
  return poison.empty();
}

std::shared_ptr<EventsOptions> add_options(CLI::App* command) {
  auto options = std::make_shared<EventsOptions>();
  add_card_option(command, &options->card);
  command->add_flag("--json", options->json, "Print JSON");
  return options;
}

}  // namespace

void add_card_events(CLI::App* command, int* exit) {
  CLI::App* const events = command->add_subcommand("events", "What its module reports meanwhile");
  events->footer(kEventsFooter);
  auto options = add_options(events);
  add_seconds_option(events, &options->seconds);
  events->add_flag("--follow", options->is_followed, "Until Ctrl-C")->excludes("--seconds");
  events->callback([options, exit] { *exit = follow(*options) ? kDone : kDamaged; });

  CLI::App* const poison = command->add_subcommand("poison", "Poisoned lines of its module");
  poison->footer(kPoisonFooter);
  auto asked = add_options(poison);
  poison->callback([asked, exit] { *exit = show_poison(*asked) ? kDone : kDamaged; });
}

}  // namespace nearkv::cli

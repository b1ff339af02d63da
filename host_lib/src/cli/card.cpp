// nearkv card
#include "card/card.hpp"

#include <algorithm>
#include <iostream>

#include "cli/card_command.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kCardFooter =
    "DESCRIPTION\n"
    "  A card is a CXL module and, beside it, the function of its engine, which the driver makes\n"
    "  /dev/nearkvN of. Before programs can use it as linux:/dev/nearkvN it needs its memory: a\n"
    "  region of the module's, made by the kernel's own drivers, that nobody else uses.\n\n"
    "EXAMPLES\n"
    "  nearkv card list\n"
    "  nearkv card region nearkv0 && nearkv card attach nearkv0\n"
    "  nearkv card info nearkv0 --json\n";

struct CardOptions {
  std::string name;
  bool json = false;
};

using Json = nlohmann::ordered_json;

Json to_json(const CardLocality& locality) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json distances = Json::object();
  for (const auto& [node, distance] : locality.distances) {
    distances[std::to_string(node)] = distance;
  }
  return {{"node", or_null(locality.node)},
          {"distances", distances.empty() ? Json(nullptr) : distances},
          {"qos_class", or_null(locality.qos_class)},
          {"read_latency_ns", or_null(locality.read_latency_ns)},
          {"write_latency_ns", or_null(locality.write_latency_ns)},
          {"read_megabytes_per_s", or_null(locality.read_megabytes_per_s)},
          {"write_megabytes_per_s", or_null(locality.write_megabytes_per_s)}};
}

Json to_json(const CardModule& module) {
  Json json{{"name", module.name},
            {"ram_bytes", module.ram_bytes},
            {"pmem_bytes", module.pmem_bytes},
            {"numa_node", module.numa_node},
            {"firmware", module.firmware},
            {"region", nullptr},
            {"locality", to_json(module.locality)}};
  if (module.region) {
    json["region"] = {{"name", module.region->name},
                      {"address", module.region->at},
                      {"bytes", module.region->bytes},
                      {"interleave_ways", module.region->ways}};
  }
  return json;
}

Json to_json(const Card& card) {
  return {{"name", card.name},
          {"path", "/dev/" + card.name},
          {"serial", card.serial},
          {"transport", card.transport},
          {"memory_address", card.memory_at},
          {"memory_bytes", card.memory_bytes},
          {"free_bytes", card.free_bytes},
          {"free_queues", card.free_queues},
          {"errors", card.errors},
          {"windows", card.windows},
          {"module", card.module_ ? to_json(*card.module_) : Json(nullptr)}};
}

Card require_card(const std::string& name) {
  const std::vector<Card> cards = find_cards();
  const auto found = std::ranges::find(cards, name, &Card::name);
  if (found != cards.end()) return *found;
  throw Failure{cards.empty() ? "there is no card; is the driver loaded?"
                              : "there is no card '" + name + "'; `nearkv card list` shows cards"};
}

void list(const CardOptions& options) {
  const std::vector<Card> cards = find_cards();
  if (options.json) {
    Json all = Json::array();
    for (const Card& card : cards) all.push_back(to_json(card));
    print_json(all);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Card& card : cards) {
    const bool has_region = card.module_ && card.module_->region;
    rows.push_back({card.name, address_text(card.serial), card.module_ ? card.module_->name : "-",
                    has_region ? card.module_->region->name : "-",
                    card.memory_bytes != 0 ? size_text(card.memory_bytes) : "-",
                    size_text(card.free_bytes), std::to_string(card.free_queues)});
  }
  print_table({"CARD", "SERIAL", "MODULE", "REGION", "MEMORY", "FREE", "QUEUES"}, rows);
}

void print_locality(const CardLocality& locality) {
  const auto text = [](const auto& value) {
    return value ? std::to_string(*value) : std::string("unknown");
  };
  std::cout << "numa     node " << text(locality.node) << ", distances ";
  if (locality.distances.empty()) std::cout << "unknown";
  for (auto at = locality.distances.begin(); at != locality.distances.end(); ++at) {
    if (at != locality.distances.begin()) std::cout << ", ";
    std::cout << at->second << " to node " << at->first;
  }
  std::cout << "\nlatency  read " << text(locality.read_latency_ns) << ", write "
            << text(locality.write_latency_ns) << " ns\nthrough  read "
            << text(locality.read_megabytes_per_s) << ", write "
            << text(locality.write_megabytes_per_s) << " MB/s, QoS class "
            << text(locality.qos_class) << '\n';
}

void print_info(const CardOptions& options) {
  const Card card = require_card(options.name);
  if (options.json) {
    print_json(to_json(card));
    return;
  }
  std::cout << card.name << ": serial " << address_text(card.serial) << ", by " << card.transport
            << '\n';
  if (card.module_) {
    const CardModule& module = *card.module_;
    std::cout << "module   " << module.name << ", " << size_text(module.ram_bytes) << ", node "
              << module.numa_node << ", firmware " << printable_text(module.firmware) << '\n';
    if (module.region) {
      std::cout << "region   " << module.region->name << " at " << address_text(module.region->at)
                << ", " << size_text(module.region->bytes) << '\n';
    }
    print_locality(module.locality);
  } else {
    std::cout << "module   none has this serial number\n";
  }
  if (card.memory_bytes == 0) {
    std::cout << "memory   none is attached\n";
  } else {
    std::cout << "memory   " << size_text(card.memory_bytes) << ", " << size_text(card.free_bytes)
              << " free, at " << address_text(card.memory_at) << '\n';
  }
  std::cout << "queues   " << card.free_queues << " free\nerrors   " << card.errors << '\n';
  for (const std::string& window : card.windows) {
    std::cout << "window   " << printable_text(window) << '\n';
  }
}

void print_health(const CardOptions& options) {
  ModuleHealth health;
  std::string reason;
  if (read_module_health(require_card(options.name), &health, &reason) != Status::kOk) {
    throw Failure{reason};
  }
  const Json json{{"media_ready", health.media_ready},
                  {"maintenance_needed", health.maintenance_needed},
                  {"performance_degraded", health.performance_degraded},
                  {"replacement_needed", health.replacement_needed},
                  {"life_critical", health.life_critical},
                  {"temperature_critical", health.temperature_critical},
                  {"life_used_percent",
                   health.life_used_percent ? Json(*health.life_used_percent) : Json(nullptr)},
                  {"temperature_celsius", health.temperature_celsius},
                  {"corrected_errors", health.corrected_errors}};
  if (options.json) {
    print_json(json);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : json.items()) rows.push_back({name, value.dump()});
  print_table({"HEALTH", "VALUE"}, rows);
}

/// A subcommand that does something to a card and says nothing if it works.
void add_action(CLI::App* command, const char* name, const char* help,
                Status (*act)(const Card&, std::string*), int* exit) {
  CLI::App* const action = command->add_subcommand(name, help);
  auto options = std::make_shared<CardOptions>();
  add_card_option(action, &options->name);
  action->callback([options, act, exit] {
    std::string reason;
    if (act(require_card(options->name), &reason) != Status::kOk) throw Failure{reason};
    *exit = kDone;
  });
}

void add_forget(CLI::App* command, int* exit) {
  CLI::App* const forget = command->add_subcommand("forget", "Forget a window that is kept");
  auto words = std::make_shared<std::pair<std::string, std::string>>();
  add_card_option(forget, &words->first);
  forget->add_option("window", words->second, "Its name; `nearkv card info` shows them")
      ->required();
  forget->callback([words, exit] {
    std::string reason;
    if (forget_window(require_card(words->first), words->second, &reason) != Status::kOk) {
      throw Failure{reason};
    }
    *exit = kDone;
  });
}

void add_view(CLI::App* command, const char* name, const char* help, bool is_of_one,
              void (*print)(const CardOptions&), int* exit) {
  CLI::App* const view = command->add_subcommand(name, help);
  auto options = std::make_shared<CardOptions>();
  if (is_of_one) {
    add_card_option(view, &options->name);
  }
  view->add_flag("--json", options->json, "Print JSON");
  view->callback([options, print, exit] {
    print(*options);
    *exit = kDone;
  });
}

}  // namespace

void add_card(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("card", "See and set up cards");
  command->footer(kCardFooter);
  command->require_subcommand(1);
  add_view(command, "list", "Cards, their modules and regions", false, list, exit);
  add_view(command, "info", "All of one card", true, print_info, exit);
  add_view(command, "health", "What its module, or else its firmware, says of its health", true,
           print_health, exit);
  add_card_capacity(command, exit);
  add_card_tenants(command, exit);
  add_card_counters(command, exit);
  add_card_hotlist(command, exit);
  add_card_events(command, exit);
  add_card_features(command, exit);
  add_card_firmware(command, exit);
  add_action(command, "region", "Make a region of all of its module", create_card_region, exit);
  add_action(command, "attach", "Give it its region", attach_card, exit);
  add_action(command, "detach", "Take its region from it", detach_card, exit);
  add_action(command, "reset", "End what its engine does", reset_card, exit);
  add_forget(command, exit);
}

}  // namespace nearkv::cli

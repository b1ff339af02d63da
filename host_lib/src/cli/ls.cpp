// nearkv ls
#include <iostream>

#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLsFooter =
    "DESCRIPTION\n"
    "  Without a number, lists the namespaces of a daemon's pool; with one, the objects of that\n"
    "  namespace, in the order of their records. Salts are not kept, so none is shown. Needs the\n"
    "  permission admin.\n\n"
    "EXAMPLES\n"
    "  nearkv ls\n"
    "  nearkv ls 0 --limit 20\n"
    "  nearkv ls 0 --json\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  no daemon, no permission, no such namespace; 2  wrong usage\n";

struct LsOptions {
  std::string socket;
  std::optional<std::uint32_t> number;
  std::uint64_t limit = 1000;
  bool json = false;
};

void list_namespaces(const std::vector<NamespaceInfo>& infos, bool json) {
  if (json) {
    Json all = Json::array();
    for (const NamespaceInfo& info : infos) {
      all.push_back({{"number", info.number},
                     {"tenant", info.tenant},
                     {"users", info.users},
                     {"objects", info.objects},
                     {"text", info.text}});
    }
    print_json(all);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(infos.size());
  for (const NamespaceInfo& info : infos) {
    rows.push_back({std::to_string(info.number), std::to_string(info.tenant),
                    std::to_string(info.users), count_text(info.objects), info.text});
  }
  print_table({"NUMBER", "TENANT", "USERS", "OBJECTS", "NAMESPACE"}, rows);
}

void print_objects(const std::vector<ObjectInfo>& infos, bool json) {
  if (json) {
    Json all = Json::array();
    for (const ObjectInfo& info : infos) {
      all.push_back({{"record", info.number},
                     {"key", hex_text(info.key)},
                     {"key_is_digest", info.key_is_digest},
                     {"bytes", info.bytes},
                     {"parts", info.parts},
                     {"extents", info.extents},
                     {"leased", info.leased},
                     {"generation", info.generation},
                     {"created_s", info.created_s},
                     {"expires_s", info.expires_s}});
    }
    print_json(all);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(infos.size());
  for (const ObjectInfo& info : infos) {
    rows.push_back({std::to_string(info.number), size_text(info.bytes), std::to_string(info.parts),
                    std::to_string(info.extents), info.leased ? "yes" : "no",
                    (info.key_is_digest ? "sha256:" : "key:") + hex_text(info.key)});
  }
  print_table({"RECORD", "SIZE", "PARTS", "EXTENTS", "LEASED", "KEY"}, rows);
}

void list_objects(const DaemonStore& store, const LsOptions& options) {
  constexpr std::size_t kAtATime = 4096;
  std::vector<ObjectInfo> wanted;
  std::uint32_t next = 0;
  while (wanted.size() < options.limit) {
    std::vector<ObjectInfo> some;
    require(store.object_infos(next, kAtATime, &some), "objects");
    for (ObjectInfo& info : some) {
      if (info.namespace_number == *options.number && wanted.size() < options.limit) {
        wanted.push_back(std::move(info));
      }
    }
    if (some.size() < kAtATime) break;
    next = some.back().number + 1;
  }
  print_objects(wanted, options.json);
}

void list(const LsOptions& options) {
  const std::unique_ptr<DaemonStore> store = connect(options.socket);
  std::vector<NamespaceInfo> namespaces;
  require(store->namespace_infos(&namespaces), "namespaces");
  if (!options.number) {
    list_namespaces(namespaces, options.json);
    return;
  }
  const bool known = std::ranges::any_of(
      namespaces, [&](const NamespaceInfo& info) { return info.number == *options.number; });
  if (!known) {
    throw Failure{"there is no namespace " + std::to_string(*options.number) +
                  "; `nearkv ls` lists those that there are"};
  }
  list_objects(*store, options);
}

}  // namespace

void add_ls(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("ls", "List namespaces, or the objects of one");
  command->footer(kLsFooter);
  auto options = std::make_shared<LsOptions>();
  add_socket_option(command, &options->socket);
  command->add_option("namespace", options->number, "A namespace's number");
  command->add_option("--limit", options->limit, "Most objects to list")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, exit] {
    list(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

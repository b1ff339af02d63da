// nearkv defrag
#include <iostream>
#include <limits>

#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kDefragFooter =
    "DESCRIPTION\n"
    "  Moves objects of a daemon's pool together, so that whole slabs become free, in small steps\n"
    "  between which clients are served. Leased objects stay. Needs the permission admin.\n\n"
    "EXAMPLES\n"
    "  nearkv defrag\n"
    "  nearkv defrag --most 1GiB --json\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  no daemon, or no permission; 2  wrong usage\n";

}  // namespace

void add_defrag(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("defrag", "Move objects together");
  command->footer(kDefragFooter);
  auto socket = std::make_shared<std::string>();
  auto most = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  add_socket_option(command, socket.get());
  command->add_option("--most", *most, "About as many bytes to move at most, like 1GiB");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([socket, most, json, exit] {
    std::uint64_t left_bytes = std::numeric_limits<std::uint64_t>::max();
    if (!most->empty()) left_bytes = require_size("--most", *most);
    const std::unique_ptr<DaemonStore> store = connect(*socket);
    std::uint64_t moved_bytes = 0;
    std::uint64_t step_bytes = 1;
    // Each step empties a slab or more, so there is an end; what is set meanwhile may prolong it.
    while (step_bytes != 0 && moved_bytes < left_bytes) {
      require(store->defragment(left_bytes - moved_bytes, &step_bytes), "defragmentation");
      moved_bytes += step_bytes;
    }
    if (*json) {
      print_json({{"moved_bytes", moved_bytes}});
    } else {
      std::cout << "moved " << size_text(moved_bytes) << '\n';
    }
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

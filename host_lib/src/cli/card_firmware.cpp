// nearkv card firmware
#include <iostream>

#include "card/firmware.hpp"
#include "cli/card_watch.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kFooter =
    "DESCRIPTION\n"
    "  Shows a card's firmware: its version, how often it has started since the card was reset, "
    "and\n"
    "  its last panic. Queues work whatever it does. Needs root.\n\n"
    "EXIT STATUS\n"
    "  0  it never panicked; 1  failed; 2  wrong usage; 3  it did, or its watchdog restarted it\n";

struct Options {
  std::string card;
  bool json = false;
};

/// Whether all went well.
bool show(const Options& options) {
  CardMailbox mailbox;
  FirmwareInfo info;
  std::string reason;
  if (mailbox.open(options.card, &reason) != Status::kOk ||
      read_firmware_info(&mailbox, &info, &reason) != Status::kOk) {
    throw Failure{reason};
  }
  const nkv_firmware_panic& panic = info.panic;
  if (options.json) {
    nlohmann::ordered_json last;
    if (panic.panics > 0) {
      last = {{"cause", panic.cause},
              {"what", describe_cause(panic.cause)},
              {"address", panic.address},
              {"value", panic.value},
              {"return_address", panic.return_address},
              {"stack_pointer", panic.stack_pointer}};
    }
    print_json({{"version", info.version},
                {"starts", panic.starts},
                {"panics", panic.panics},
                {"last_panic", last}});
  } else {
    std::cout << "version  " << info.version << "\nstarts   " << panic.starts << "\npanics   "
              << panic.panics << '\n';
    if (panic.panics > 0) {
      std::cout << "last     " << describe_cause(panic.cause) << ": " << address_text(panic.value)
                << ", at " << address_text(panic.address) << ", called from "
                << address_text(panic.return_address) << '\n';
    }
  }
  return panic.starts <= 1;
}

}  // namespace

void add_card_firmware(CLI::App* command, int* exit) {
  CLI::App* const firmware = command->add_subcommand("firmware", "Its firmware, and how it fared");
  firmware->footer(kFooter);
  auto options = std::make_shared<Options>();
  add_card_option(firmware, &options->card);
  firmware->add_flag("--json", options->json, "Print JSON");
  firmware->callback([options, exit] { *exit = show(*options) ? kDone : kDamaged; });
}

}  // namespace nearkv::cli

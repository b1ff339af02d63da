// nearkv card firmware
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "card/firmware.hpp"
#include "card/firmware_update.hpp"
#include "cli/card_command.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kFirmwareFooter =
    "DESCRIPTION\n"
    "  Shows a card's firmware: its version, how often it has started since the card was reset, "
    "its\n"
    "  last panic, and the images that its slots hold. Queues work whatever it does. Needs "
    "root.\n\n"
    "EXAMPLES\n"
    "  nearkv card firmware nearkv0\n"
    "  nearkv card firmware update nearkv0 firmware.signed\n\n"
    "EXIT STATUS\n"
    "  0  it never panicked; 1  failed; 2  wrong usage; 3  it did, or its watchdog restarted it\n";

constexpr const char* kUpdateFooter =
    "DESCRIPTION\n"
    "  Gives a card an image of its firmware, which it checks and writes to the slot that does "
    "not\n"
    "  run, and starts it. Queues work on meanwhile; what the firmware knew of events, poison and\n"
    "  settings is gone. Power may fail at any time: the old image or the new one starts. A new "
    "image\n"
    "  that does not answer a command in three starts is given up for the old one. Images are "
    "signed\n"
    "  by firmware/sign.py. Needs root.\n\n"
    "EXIT STATUS\n"
    "  0  the image runs, or will; 1  failed: what ran before does; 2  wrong usage\n";

struct FirmwareOptions {
  std::string card;
  std::string file;
  bool waits_for_reset = false;
  bool json = false;
};

nlohmann::ordered_json slots_json(const FirmwareSlots& slots) {
  auto all = nlohmann::ordered_json::array();
  for (unsigned slot = 1; slot <= slots.revisions.size(); ++slot) {
    const std::string& revision = slots.revisions[slot - 1];
    all.push_back({{"slot", slot},
                   {"revision", revision},
                   {"active", slot == slots.active},
                   {"staged", slot == slots.staged}});
  }
  return all;
}

void print_slots(const FirmwareSlots& slots) {
  for (unsigned slot = 1; slot <= slots.revisions.size(); ++slot) {
    const std::string& revision = slots.revisions[slot - 1];
    std::cout << "slot " << slot << "   " << (revision.empty() ? "empty" : printable_text(revision))
              << (slot == slots.active ? ", runs" : "")
              << (slot == slots.staged ? ", starts with the next reset" : "") << '\n';
  }
}

/// Whether all went well.
bool show(const FirmwareOptions& options) {
  CardMailbox mailbox;
  FirmwareInfo info;
  FirmwareSlots slots;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  if (read_firmware_info(&mailbox, &info, &reason) != Status::kOk) throw Failure{reason};
  const Status has_slots = read_firmware_slots(&mailbox, &slots, &reason);
  if (has_slots != Status::kOk && has_slots != Status::kUnsupported) throw Failure{reason};
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
                {"last_panic", last},
                {"slots", slots_json(slots)}});
  } else {
    std::cout << "version  " << printable_text(info.version) << "\nstarts   " << panic.starts
              << "\npanics   " << panic.panics << '\n';
    if (panic.panics > 0) {
      std::cout << "last     " << describe_cause(panic.cause) << ": " << address_text(panic.value)
                << ", at " << address_text(panic.address) << ", called from "
                << address_text(panic.return_address) << '\n';
    }
    print_slots(slots);
  }
  return panic.starts <= 1;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string read((std::istreambuf_iterator<char>(file)), {});
  if (!file || read.empty()) throw Failure{path + ": there is nothing to read", kUsage};
  const auto bytes = std::as_bytes(std::span(read));
  return {bytes.begin(), bytes.end()};
}

/// On a terminal, one line that changes.
void show_progress(std::size_t done, std::size_t all) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << "\r\33[K" << size_text(done) << " of " << size_text(all) << std::flush;
  if (done == all) std::cerr << "\r\33[K";
}

void update(const FirmwareOptions& options) {
  const std::vector<std::byte> image = read_file(options.file);
  CardMailbox mailbox;
  std::string reason;
  unsigned slot = 0;
  open_mailbox(options.card, &mailbox);
  Status status = transfer_firmware(
      &mailbox, image, [&](std::size_t bytes) { show_progress(bytes, image.size()); }, &slot,
      &reason);
  show_progress(image.size(), image.size());
  if (status == Status::kOk) {
    status = activate_firmware(&mailbox, slot, !options.waits_for_reset, &reason);
  }
  FirmwareSlots slots;
  if (status == Status::kOk) status = read_firmware_slots(&mailbox, &slots, &reason);
  if (status == Status::kUnsupported) reason = options.card + ": it has no flash memory for images";
  if (status != Status::kOk) throw Failure{reason};
  if (options.json) {
    print_json(slots_json(slots));
  } else {
    print_slots(slots);
  }
}

void add_update(CLI::App* firmware, int* exit) {
  CLI::App* const command = firmware->add_subcommand("update", "Give it a new image");
  command->footer(kUpdateFooter);
  auto options = std::make_shared<FirmwareOptions>();
  add_card_option(command, &options->card);
  command->add_option("file", options->file, "Image with its signature")->required();
  command->add_flag("--at-reset", options->waits_for_reset, "Start it with the card's next reset");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, exit] {
    update(*options);
    *exit = kDone;
  });
}

}  // namespace

void add_card_firmware(CLI::App* command, int* exit) {
  CLI::App* const firmware = command->add_subcommand("firmware", "Its firmware, and how it fared");
  firmware->footer(kFirmwareFooter);
  auto options = std::make_shared<FirmwareOptions>();
  firmware->add_option("card", options->card, "As `nearkv card list` has it");
  firmware->add_flag("--json", options->json, "Print JSON");
  add_update(firmware, exit);
  firmware->callback([firmware, options, exit] {
    if (!firmware->get_subcommands().empty()) return;
    if (options->card.empty()) throw CLI::RequiredError("card");
    *exit = show(*options) ? kDone : kDamaged;
  });
}

}  // namespace nearkv::cli

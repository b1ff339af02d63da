// nearkv card capacity
#include <algorithm>
#include <charconv>
#include <iostream>

#include "card/capacity.hpp"
#include "cli/card_command.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kCapacityFooter =
    "DESCRIPTION\n"
    "  Shows a card's dynamic capacity: its region, and the extents that the host has. A fabric\n"
    "  manager offers capacity, and asks for it back or takes it; the host answers, and releases.\n"
    "  A card has one mailbox, so that its host may be both. The card wipes what comes back "
    "before\n"
    "  it lends it again. Addresses are those of device memory. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card capacity nearkv0\n"
    "  nearkv card capacity offer nearkv0 64MiB --tag pool --contiguous\n"
    "  nearkv card capacity answer nearkv0\n"
    "  nearkv card capacity take nearkv0 0x30000000 16MiB\n"
    "  nearkv card capacity release nearkv0 0x30000000 16MiB\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  failed: nothing has changed; 2  wrong usage\n";

struct CapacityOptions {
  std::string card;
  std::string address;
  std::string size;
  std::string tag;
  bool flag = false;
  bool json = false;
};

std::uint64_t size_of(const CapacityOptions& options) {
  const std::uint64_t bytes = require_size("size", options.size);
  if (bytes == 0) throw Failure{"size: nothing can be lent of no bytes", kUsage};
  return bytes;
}

CapacityExtent extent_of(const CapacityOptions& options) {
  const bool is_hex = options.address.starts_with("0x");
  const char* const end = options.address.data() + options.address.size();
  CapacityExtent extent{.address = 0, .bytes = size_of(options), .tag = {}};
  const auto parsed = std::from_chars(options.address.data() + (is_hex ? 2 : 0), end,
                                      extent.address, is_hex ? 16 : 10);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    throw Failure{"'" + options.address + "' is no address; 0x30000000 is one", kUsage};
  }
  return extent;
}

CapacityTag tag_of(const std::string& text) {
  CapacityTag tag{};
  if (text.size() > tag.size()) {
    throw Failure{"a tag has " + std::to_string(tag.size()) + " characters at most", kUsage};
  }
  std::ranges::copy(std::as_bytes(std::span(text)), tag.begin());
  return tag;
}

/// As it was given to `offer`; in hexadecimal if it is no text.
std::string tag_text(const CapacityTag& tag) {
  std::string text = take_text(tag);
  const bool is_text = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  return is_text ? text : hex_text(tag);
}

nlohmann::ordered_json json_of(const CapacityExtent& extent) {
  return {{"address", extent.address}, {"bytes", extent.bytes}, {"tag", tag_text(extent.tag)}};
}

void show(const CapacityOptions& options) {
  CardMailbox mailbox;
  Capacity capacity;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  require_done(read_capacity(&mailbox, &capacity, &reason), reason);
  if (options.json) {
    auto extents = nlohmann::ordered_json::array();
    for (const CapacityExtent& extent : capacity.extents) extents.push_back(json_of(extent));
    print_json({{"address", capacity.address},
                {"bytes", capacity.bytes},
                {"block_bytes", capacity.block_bytes},
                {"generation", capacity.generation},
                {"extents", extents}});
    return;
  }
  std::cout << "region  " << address_text(capacity.address) << ", " << size_text(capacity.bytes)
            << " in blocks of " << size_text(capacity.block_bytes) << '\n';
  std::vector<std::vector<std::string>> rows;
  rows.reserve(capacity.extents.size());
  for (const CapacityExtent& extent : capacity.extents) {
    rows.push_back({address_text(extent.address), size_text(extent.bytes), tag_text(extent.tag)});
  }
  print_table({"EXTENT", "SIZE", "TAG"}, rows);
}

void offer(const CapacityOptions& options) {
  const std::uint64_t bytes = size_of(options);
  const CapacityTag tag = tag_of(options.tag);
  CardMailbox mailbox;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  require_done(offer_capacity(&mailbox, bytes, tag, options.flag, &reason), reason);
}

const char* name_of(CapacityEventKind kind) {
  switch (kind) {
    case CapacityEventKind::kOffered:
      return "offered";
    case CapacityEventKind::kWanted:
      return "wanted";
    case CapacityEventKind::kTaken:
      return "taken";
  }
  return "";
}

/// Tells of the events, and accepts all that is offered, or nothing.
void answer(const CapacityOptions& options) {
  CardMailbox mailbox;
  std::vector<CapacityEvent> events;
  std::vector<CapacityExtent> accepted;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  require_done(take_capacity_events(&mailbox, &events, &reason), reason);
  auto all = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const CapacityEvent& event : events) {
    const CapacityExtent& extent = event.extent;
    if (event.kind == CapacityEventKind::kOffered && !options.flag) accepted.push_back(extent);
    all.push_back(json_of(extent));
    all.back()["event"] = name_of(event.kind);
    rows.push_back({name_of(event.kind), address_text(extent.address), size_text(extent.bytes),
                    tag_text(extent.tag)});
  }
  require_done(answer_offer(&mailbox, accepted, &reason), reason);
  if (options.json) {
    print_json(all);
  } else {
    print_table({"EVENT", "EXTENT", "SIZE", "TAG"}, rows);
  }
}

void change(const CapacityOptions& options, bool is_host) {
  const CapacityExtent extent = extent_of(options);
  CardMailbox mailbox;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  require_done(is_host ? release_capacity(&mailbox, extent, &reason)
                       : take_capacity(&mailbox, extent, options.flag, &reason),
               reason);
}

template <typename Run>
CLI::App* add(CLI::App* capacity, const char* name, const char* what, CapacityOptions** options,
              const Run& run, int* exit) {
  CLI::App* const command = capacity->add_subcommand(name, what);
  auto own = std::make_shared<CapacityOptions>();
  *options = own.get();
  add_card_option(command, &own->card);
  command->callback([own, run, exit] {
    run(*own);
    *exit = kDone;
  });
  return command;
}

void add_extent(CLI::App* command, CapacityOptions* options) {
  command->add_option("address", options->address, "In device memory")->required();
  command->add_option("size", options->size, "Whole blocks, as 64MiB")->required();
}

}  // namespace

void add_card_capacity(CLI::App* command, int* exit) {
  CLI::App* const capacity =
      command->add_subcommand("capacity", "Memory that it lends to the host");
  capacity->footer(kCapacityFooter);
  auto shown = std::make_shared<CapacityOptions>();
  capacity->add_option("card", shown->card, "As `nearkv card list` has it");
  capacity->add_flag("--json", shown->json, "Print JSON");

  CapacityOptions* options = nullptr;
  CLI::App* part = add(capacity, "offer", "As a fabric manager: lend some", &options, offer, exit);
  part->add_option("size", options->size, "Whole blocks, as 64MiB")->required();
  part->add_option("--tag", options->tag, "Up to 16 characters that go with it");
  part->add_flag("--contiguous", options->flag, "In one piece");

  part = add(capacity, "answer", "As the host: accept what is offered", &options, answer, exit);
  part->add_flag("--refuse", options->flag, "Accept nothing");
  part->add_flag("--json", options->json, "Print JSON");

  part = add(
      capacity, "take", "As a fabric manager: ask some back", &options,
      [](const CapacityOptions& own) { change(own, false); }, exit);
  add_extent(part, options);
  part->add_flag("--force", options->flag, "Take it at once, with all that it holds");

  part = add(
      capacity, "release", "As the host: give some back", &options,
      [](const CapacityOptions& own) { change(own, true); }, exit);
  add_extent(part, options);

  capacity->callback([capacity, shown, exit] {
    if (!capacity->get_subcommands().empty()) return;
    if (shown->card.empty()) throw CLI::RequiredError("card");
    show(*shown);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

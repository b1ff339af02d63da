// nearkv card features
#include <charconv>

#include "card/features.hpp"
#include "cli/card_command.hpp"
#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kFeaturesFooter =
    "DESCRIPTION\n"
    "  Shows what can be set of a card's firmware, after setting what --set says. It holds until\n"
    "  the firmware is reset. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card features nearkv0\n"
    "  nearkv card features nearkv0 --set scrub.hours=24 --set scrub.enabled=1\n"
    "  nearkv card features nearkv0 --set sharing.near_sixteenths=8 --set sharing.custom=1\n"
    "  nearkv card features nearkv0 --set hotness.near_units=64 --set hotness.near_enabled=1\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  failed; 2  wrong usage\n";

struct FeaturesOptions {
  std::string card;
  std::vector<std::string> wanted;
  bool json = false;
};

void set(CardMailbox* mailbox, const std::string& words) {
  const std::size_t equals = words.find('=');
  std::uint64_t value = 0;
  const char* const end = words.data() + words.size();
  const char* const digits = equals == std::string::npos ? end : words.data() + equals + 1;
  const auto parsed = std::from_chars(digits, end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    throw Failure{"--set wants FIELD=NUMBER, not '" + words + "'", kUsage};
  }
  std::string reason;
  require_done(set_feature(mailbox, words.substr(0, equals), value, &reason), reason);
}

void show(const FeaturesOptions& options) {
  CardMailbox mailbox;
  std::vector<FeatureField> fields;
  std::string reason;
  open_mailbox(options.card, &mailbox);
  for (const std::string& words : options.wanted) set(&mailbox, words);
  if (read_features(&mailbox, &fields, &reason) != Status::kOk) throw Failure{reason};
  if (options.json) {
    nlohmann::ordered_json all;
    for (const FeatureField& field : fields) all[field.name] = field.value;
    print_json(all);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(fields.size());
  for (const FeatureField& field : fields) {
    rows.push_back({field.name, count_text(field.value), field.help});
  }
  print_table({"FIELD", "VALUE", "WHAT"}, rows);
}

}  // namespace

void add_card_features(CLI::App* command, int* exit) {
  CLI::App* const features = command->add_subcommand("features", "Settings of its firmware");
  features->footer(kFeaturesFooter);
  auto options = std::make_shared<FeaturesOptions>();
  add_card_option(features, &options->card);
  features->add_option("--set", options->wanted, "FIELD=NUMBER; can be repeated");
  features->add_flag("--json", options->json, "Print JSON");
  features->callback([options, exit] {
    show(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

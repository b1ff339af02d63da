// nearkv card tenants
#include <pwd.h>

#include <algorithm>
#include <optional>

#include "card/tenants.hpp"
#include "cli/card_command.hpp"
#include "cli/command.hpp"
#include "device/uri.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kOthers = "others";
constexpr const char* kTenantsFooter =
    "DESCRIPTION\n"
    "  Shows what users may have of a card: windows of its memory, queues, and how much of the\n"
    "  engine's time their queues get beside others'. Who has no entry has what `others` have, or\n"
    "  no limit without that. The card's firmware keeps the entries until power fails, the driver\n"
    "  holds all processes of a user together to them; who has CAP_SYS_RESOURCE is not limited.\n"
    "  What users have already they keep. Needs root.\n\n"
    "EXAMPLES\n"
    "  nearkv card tenants nearkv0\n"
    "  nearkv card tenants set nearkv0 alice --memory 64MiB --queues 4 --weight 8\n"
    "  nearkv card tenants set nearkv0 others --memory 0 --queues 0\n"
    "  nearkv card tenants remove nearkv0 alice\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  failed: nothing has changed; 2  wrong usage\n";

struct TenantsOptions {
  std::string card;
  std::string owner;
  std::optional<std::string> memory;
  std::optional<std::uint16_t> queues;
  std::optional<std::uint8_t> weight;
  bool json = false;
};

std::vector<nkv_card_tenant> open_tenants(const TenantsOptions& options, CardMailbox* mailbox) {
  std::vector<nkv_card_tenant> tenants;
  std::string reason;
  open_mailbox(options.card, mailbox);
  require_done(read_tenants(mailbox, &tenants, &reason), reason);
  return tenants;
}

/// A tenant with an owner, and no limits yet.
nkv_card_tenant owned_by(const std::string& owner) {
  nkv_card_tenant tenant{};
  tenant.kind = owner == kOthers ? NKV_CARD_TENANT_KIND_OTHERS : NKV_CARD_TENANT_KIND_USER;
  if (owner == kOthers) return tenant;
  std::uint64_t number = 0;
  if (const passwd* const user = ::getpwnam(owner.c_str()); user != nullptr) {
    tenant.owner = user->pw_uid;
  } else if (parse_number(owner, &number) == Status::kOk && number < UINT32_MAX) {
    tenant.owner = static_cast<std::uint32_t>(number);
  } else {
    throw Failure{"there is no user '" + owner + "'; a name, a number or others", kUsage};
  }
  return tenant;
}

std::string owner_text(const nkv_card_tenant& tenant) {
  if (tenant.kind == NKV_CARD_TENANT_KIND_OTHERS) return kOthers;
  const passwd* const user = ::getpwuid(tenant.owner);
  return user != nullptr ? user->pw_name : std::to_string(tenant.owner);
}

void show(const TenantsOptions& options) {
  CardMailbox mailbox;
  auto all = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const nkv_card_tenant& tenant : open_tenants(options, &mailbox)) {
    const bool is_user = tenant.kind == NKV_CARD_TENANT_KIND_USER;
    all.push_back({{"owner", owner_text(tenant)},
                   {"uid", is_user ? nlohmann::ordered_json(tenant.owner) : nullptr},
                   {"memory_bytes", tenant.window_bytes},
                   {"queues", tenant.queues},
                   {"weight", tenant.weight}});
    rows.push_back({owner_text(tenant), size_text(tenant.window_bytes),
                    std::to_string(tenant.queues), std::to_string(tenant.weight)});
  }
  if (options.json) {
    print_json(all);
  } else {
    print_table({"OWNER", "MEMORY", "QUEUES", "WEIGHT"}, rows);
  }
}

/// What is not said stays, or is all that a card can give where there was no entry.
void set(const TenantsOptions& options) {
  nkv_card_tenant wanted = owned_by(options.owner);
  CardMailbox mailbox;
  std::vector<nkv_card_tenant> tenants = open_tenants(options, &mailbox);
  auto found = std::ranges::find_if(
      tenants, [&](const nkv_card_tenant& tenant) { return is_same_owner(tenant, wanted); });
  if (found == tenants.end()) {
    wanted.queues = NKV_MAX_QUEUES;
    wanted.weight = 1;
    wanted.window_bytes = UINT64_MAX;
    found = tenants.insert(tenants.end(), wanted);
  }
  found->queues = options.queues.value_or(found->queues);
  found->weight = options.weight.value_or(found->weight);
  if (options.memory) found->window_bytes = require_size("--memory", *options.memory);
  std::string reason;
  require_done(write_tenants(&mailbox, tenants, &reason), reason);
}

void remove(const TenantsOptions& options) {
  const nkv_card_tenant owned = owned_by(options.owner);
  CardMailbox mailbox;
  std::vector<nkv_card_tenant> tenants = open_tenants(options, &mailbox);
  if (std::erase_if(tenants, [&](const nkv_card_tenant& tenant) {
        return is_same_owner(tenant, owned);
      }) == 0) {
    throw Failure{options.card + " keeps no limits of " + options.owner};
  }
  std::string reason;
  require_done(write_tenants(&mailbox, tenants, &reason), reason);
}

/// A subcommand for one owner, whose options are returned.
TenantsOptions* add(CLI::App* tenants, const char* name, const char* what,
                    void (*run)(const TenantsOptions&), int* exit) {
  CLI::App* const command = tenants->add_subcommand(name, what);
  auto options = std::make_shared<TenantsOptions>();
  add_card_option(command, &options->card);
  command->add_option("owner", options->owner, "A user's name or number, or others")->required();
  command->callback([options, run, exit] {
    run(*options);
    *exit = kDone;
  });
  return options.get();
}

}  // namespace

void add_card_tenants(CLI::App* command, int* exit) {
  CLI::App* const tenants = command->add_subcommand("tenants", "What users may have of it");
  tenants->footer(kTenantsFooter);
  auto shown = std::make_shared<TenantsOptions>();
  tenants->add_option("card", shown->card, "As `nearkv card list` has it");
  tenants->add_flag("--json", shown->json, "Print JSON");

  TenantsOptions* const options = add(tenants, "set", "Limit a user, or all others", set, exit);
  CLI::App* const part = tenants->get_subcommand("set");
  part->add_option("--memory", options->memory, "Of its windows together, as 64MiB");
  part->add_option("--queues", options->queues, "Of its processes together")
      ->check(CLI::Range(0, NKV_MAX_QUEUES));
  part->add_option("--weight", options->weight, "Of each of its queues beside those of others")
      ->check(CLI::Range(0, 15));
  add(tenants, "remove", "Forget its limits", remove, exit);

  tenants->callback([tenants, shown, exit] {
    if (!tenants->get_subcommands().empty()) return;
    if (shown->card.empty()) throw CLI::RequiredError("card");
    show(*shown);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli

#include "cli/card_command.hpp"

#include "cli/command.hpp"

namespace nearkv::cli {

void require_done(Status status, const std::string& reason) {
  if (status == Status::kOk) return;
  throw Failure{reason, status == Status::kBadArgument ? kUsage : kFailed};
}

void open_mailbox(const std::string& card, CardMailbox* mailbox) {
  std::string reason;
  if (mailbox->open(card, &reason) != Status::kOk) throw Failure{reason};
}

void add_card_option(CLI::App* command, std::string* name) {
  command->add_option("card", *name, "As `nearkv card list` has it")->required();
}

}  // namespace nearkv::cli

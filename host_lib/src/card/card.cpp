#include "card/card.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "card/mailbox.hpp"
#include "card/module.hpp"
#include "file_descriptor.hpp"
#include "nkv_card.h"

extern char** environ;

namespace nearkv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCards = "/sys/class/misc";

fs::path attributes_of(const std::string& name) {
  return fs::path(kCards) / name / "device" / "nearkv";
}

std::string read_attribute(const fs::path& folder, const char* name) {
  std::ifstream file(folder / name);
  std::ostringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  if (!all.empty() && all.back() == '\n') all.pop_back();
  return all;
}

std::uint64_t read_number(const fs::path& folder, const char* name) {
  return std::strtoull(read_attribute(folder, name).c_str(), nullptr, 0);
}

/// 0, or why not.
int write_attribute(const Card& card, const char* name, const std::string& text) {
  errno = 0;
  std::ofstream file(attributes_of(card.name) / name);
  file << text << std::flush;
  if (file.good()) return 0;
  return errno != 0 ? errno : EIO;
}

Card read_card(const std::string& name) {
  const fs::path folder = attributes_of(name);
  Card card;
  card.name = name;
  card.transport = read_attribute(folder, "transport");
  card.serial = read_number(folder, "serial");
  card.free_bytes = read_number(folder, "free_bytes");
  card.free_queues = static_cast<unsigned>(read_number(folder, "free_queues"));
  card.errors = read_number(folder, "errors");
  std::istringstream memory(read_attribute(folder, "memory"));
  memory >> std::setbase(0) >> card.memory_at >> card.memory_bytes;
  std::istringstream windows(read_attribute(folder, "windows"));
  for (std::string line; std::getline(windows, line);) card.windows.push_back(line);
  if (card.serial != 0) card.module_ = find_module(card.serial);
  return card;
}

Status fail(const Card& card, int error, const std::string& what, std::string* reason) {
  *reason = card.name + ": " + what + ": " + std::strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
      *reason += "; are you root?";
      return Status::kDenied;
    case EBUSY:
      return Status::kBusy;
    case ENXIO:
      *reason += " (the engine does not see these addresses)";
      return Status::kIoError;
    default:
      return Status::kIoError;
  }
}

Status run_tool(const std::vector<std::string>& words, std::string* reason) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // What it prints describes what it made; what went wrong goes to standard error.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    *reason = words.front() + ": " + std::strerror(error) + "; it is in the package cxl, or ndctl";
    return Status::kNotFound;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::kOk;
  *reason = words.front() + " failed; it said why above";
  return Status::kIoError;
}

/// CXL 3.1, table 8-132.
ModuleHealth firmware_health(const CardMailbox::Answer& answer) {
  constexpr std::uint64_t kUnknown = 0xFF;
  const std::uint64_t needs = answer.number(0, 1);
  const std::uint64_t more = answer.number(2, 1);
  const std::uint64_t life_used = answer.number(3, 1);
  ModuleHealth health{.maintenance_needed = (needs & 1) != 0,
                      .performance_degraded = (needs & 2) != 0,
                      .replacement_needed = (needs & 4) != 0,
                      .media_ready = answer.number(1, 1) == 0,
                      .life_critical = (more & 3) == 2,
                      .temperature_critical = (more >> 2 & 3) == 2,
                      .life_used_percent = std::nullopt,
                      .temperature_celsius = static_cast<std::int16_t>(answer.number(4, 2)),
                      .corrected_errors = static_cast<std::uint32_t>(answer.number(10, 4))};
  if (life_used != kUnknown) health.life_used_percent = static_cast<int>(life_used);
  return health;
}

}  // namespace

std::vector<Card> find_cards() {
  std::vector<Card> cards;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kCards, ignored)) {
    const std::string name = entry.path().filename();
    if (fs::exists(attributes_of(name), ignored)) cards.push_back(read_card(name));
  }
  std::ranges::sort(cards, {}, &Card::name);
  return cards;
}

Status attach_card(const Card& card, std::string* reason) {
  if (card.memory_bytes != 0) {
    *reason = card.name + " has its memory already";
    return Status::kBusy;
  }
  if (!card.module_) {
    *reason =
        card.name + ": no CXL module has its serial number; `cxl list -M` shows those there are";
    return Status::kNotFound;
  }
  const std::optional<CardRegion>& region = card.module_->region;
  if (!region) {
    *reason =
        card.module_->name + " has no region; `nearkv card region " + card.name + "` makes one";
    return Status::kNotFound;
  }
  if (region->ways != 1) {
    *reason = region->name + " is spread over " + std::to_string(region->ways) +
              " modules: an engine sees only its own; make a region of one";
    return Status::kUnsupported;
  }
  const Status status = release_dax(*region, reason);
  if (status != Status::kOk) return status;
  const int error = write_attribute(
      card, "memory", std::to_string(region->at) + " " + std::to_string(region->bytes));
  return error == 0 ? Status::kOk : fail(card, error, "attaching " + region->name, reason);
}

Status detach_card(const Card& card, std::string* reason) {
  const int error = write_attribute(card, "memory", "none");
  return error == 0 ? Status::kOk : fail(card, error, "detaching its memory", reason);
}

Status reset_card(const Card& card, std::string* reason) {
  const int error = write_attribute(card, "reset", "1");
  return error == 0 ? Status::kOk : fail(card, error, "resetting", reason);
}

Status forget_window(const Card& card, const std::string& name, std::string* reason) {
  nkv_card_window window{};
  window.flags = NKV_CARD_WINDOW_FLAG_KEEP | NKV_CARD_WINDOW_FLAG_MUST_EXIST;
  if (name.empty() || name.size() >= sizeof(window.name)) {
    *reason = "no window has such a name";
    return Status::kBadArgument;
  }
  std::ranges::copy(name, window.name);
  const FileDescriptor file(::open(("/dev/" + card.name).c_str(), O_RDWR | O_CLOEXEC));
  if (file && ::ioctl(file.get(), NKV_IOCTL_WINDOW, &window) == 0 &&
      ::ioctl(file.get(), NKV_IOCTL_WINDOW_FORGET) == 0) {
    return Status::kOk;
  }
  if (errno == ENOENT) {
    *reason = card.name + " keeps no window '" + name + "' of this user";
    return Status::kNotFound;
  }
  return fail(card, errno, "forgetting window '" + name + "'", reason);
}

Status create_card_region(const Card& card, std::string* reason) {
  if (!card.module_) {
    *reason = card.name + ": no CXL module has its serial number";
    return Status::kNotFound;
  }
  if (card.module_->region) {
    *reason = card.module_->name + " has " + card.module_->region->name + " already";
    return Status::kExists;
  }
  const std::string decoder = volatile_decoder(card.serial);
  if (decoder.empty()) {
    *reason = "no host bridge above " + card.module_->name + " maps volatile memory";
    return Status::kUnsupported;
  }
  const Status status = await_module(card.serial, reason);
  if (status != Status::kOk) return status;
  return run_tool(
      {"cxl", "create-region", "-m", "-d", decoder, "-t", "ram", "-w", "1", card.module_->name},
      reason);
}

Status read_module_health(const Card& card, ModuleHealth* health, std::string* reason) {
  if (query_health(card.serial, health, reason) == Status::kOk) return Status::kOk;
  CardMailbox mailbox;
  CardMailbox::Answer answer;
  Status status = mailbox.open(card.name, reason);
  if (status == Status::kOk) {
    status = mailbox.require(NKV_CCI_OPCODE_GET_HEALTH, {}, &answer, reason);
  }
  if (status == Status::kOk) *health = firmware_health(answer);
  return status;
}

}  // namespace nearkv

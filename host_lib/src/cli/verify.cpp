// nearkv verify
#include <unistd.h>

#include <iostream>

#include "cli/command.hpp"
#include "daemon/server/pool_file.hpp"

namespace nearkv::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVerifyFooter =
    "DESCRIPTION\n"
    "  Reads every object and checks every byte. Of a daemon, which drops what is damaged: needs\n"
    "  the permission admin. Or of a pool that nobody serves: then nothing is changed, and the\n"
    "  damaged records are named. Of encrypted objects checksums are compared, which takes no "
    "key;\n"
    "  that they are authentic is not checked.\n\n"
    "EXAMPLES\n"
    "  nearkv verify\n"
    "  nearkv verify --pool /var/lib/nearkv/pool --json\n\n"
    "EXIT STATUS\n"
    "  0  no damage; 1  failed; 2  wrong usage; 3  damage was found\n";

struct Found {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> records;  ///< Damaged, where that is known.
  std::uint64_t damaged = 0;
};

void show_progress(const Found& found) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << "\r" << count_text(found.objects) << " objects, " << size_text(found.bytes) << "   "
            << std::flush;
}

Found verify_daemon(const std::string& socket) {
  const std::unique_ptr<DaemonStore> store = connect(socket);
  Found found;
  VerifyProgress step;
  std::uint64_t steps = 0;
  do {
    const std::uint32_t next = step.next;
    step = VerifyProgress();
    require(store->verify(next, 16, &step), "verification");
    found.objects += step.objects;
    found.bytes += step.bytes;
    found.damaged += step.damaged;
    if (++steps % 64 == 0) show_progress(found);
  } while (step.next != 0);
  return found;
}

Found verify_file(const std::string& path) {
  std::unique_ptr<PoolFile> pool;
  std::string reason;
  if (PoolFile::open(path, &pool, &reason) != Status::kOk) throw Failure{reason};
  if (pool->is_served()) {
    throw Failure{path + ": a daemon serves this pool; verify it by the daemon's --socket"};
  }
  Found found;
  nkv_object_record record{};
  for (ObjectId id = 0; id < pool->records(); ++id) {
    Status status = pool->read(id, &record);
    if (status == Status::kNotFound) continue;
    if (status == Status::kOk && record.state == NKV_OBJECT_STATE_LIVE) {
      status = pool->verify(record);
      found.bytes += record.bytes;
    }
    ++found.objects;
    if (status != Status::kOk || record.state == NKV_OBJECT_STATE_POISONED) {
      found.records.push_back(id);
    }
    if (id % 1024 == 0) show_progress(found);
  }
  found.damaged = found.records.size();
  return found;
}

void print(const Found& found, bool json, bool names_records) {
  if (::isatty(STDERR_FILENO) != 0) std::cerr << '\r';
  if (json) {
    Json value = {{"objects", found.objects}, {"bytes", found.bytes}, {"damaged", found.damaged}};
    if (names_records) value["damaged_records"] = found.records;
    print_json(value);
    return;
  }
  std::cout << count_text(found.objects) << " objects, " << size_text(found.bytes) << ", "
            << count_text(found.damaged) << " damaged\n";
  for (const std::uint32_t record : found.records) std::cout << "record " << record << '\n';
}

}  // namespace

void add_verify(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("verify", "Check every byte of every object");
  command->footer(kVerifyFooter);
  auto socket = std::make_shared<std::string>();
  auto pool = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  add_socket_option(command, socket.get());
  command->add_option("--pool", *pool, "A pool that nobody serves, instead of a daemon");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([socket, pool, json, exit] {
    const Found found = pool->empty() ? verify_daemon(*socket) : verify_file(*pool);
    print(found, *json, !pool->empty());
    *exit = found.damaged == 0 ? kDone : kDamaged;
  });
}

}  // namespace nearkv::cli

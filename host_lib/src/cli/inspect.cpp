// nearkv inspect
#include <iostream>
#include <map>

#include "cli/command.hpp"
#include "daemon/server/pool_file.hpp"

namespace nearkv::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kInspectFooter =
    "DESCRIPTION\n"
    "  Reads a pool's file or DAX device without changing it: its header, where its tables lie,\n"
    "  namespaces, records, those that are damaged, and how its slabs are filled (# full, 9 to 1\n"
    "  tenths, . empty, p pages, - free). Of a pool that a daemon serves, numbers may be of\n"
    "  different moments. Payloads are not read; `nearkv verify --pool` does.\n\n"
    "EXAMPLES\n"
    "  nearkv inspect /var/lib/nearkv/pool\n"
    "  nearkv inspect /var/lib/nearkv/pool --json\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  no pool there; 2  wrong usage; 3  damaged records were found\n";

struct Contents {
  std::uint64_t live = 0;
  std::uint64_t poisoned = 0;
  std::uint64_t free = 0;
  std::uint64_t object_bytes = 0;
  std::vector<std::uint32_t> damaged;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> by_namespace;  ///< Count, bytes.
  std::map<std::size_t, std::uint64_t> pieces;  ///< Extents of an object: how many objects.
  std::vector<std::uint64_t> slab_grains;       ///< Used, of each slab.
};

void add_extents(const PoolFile& pool, const std::vector<Extent>& extents, Contents* contents) {
  const nkv_pool_header& header = pool.header();
  const std::uint64_t first = header.data_at / NKV_OBJECT_GRAIN_BYTES;
  const std::uint64_t slab_grains = header.slab_bytes / NKV_OBJECT_GRAIN_BYTES;
  for (const Extent& extent : extents) {
    for (std::uint64_t grain = extent.first_grain - first, left = extent.grains; left != 0;) {
      const std::uint64_t run = std::min(left, slab_grains - grain % slab_grains);
      contents->slab_grains[grain / slab_grains] += run;
      grain += run;
      left -= run;
    }
  }
}

Contents read_contents(const PoolFile& pool) {
  Contents contents;
  contents.slab_grains.resize(pool.header().slabs);
  nkv_object_record record{};
  std::vector<Extent> extents;
  for (ObjectId id = 0; id < pool.records(); ++id) {
    Status status = pool.read(id, &record);
    if (status == Status::kNotFound) {
      ++contents.free;
      continue;
    }
    if (status == Status::kOk) status = pool.extents(record, &extents);
    if (status != Status::kOk) {
      contents.damaged.push_back(id);
      continue;
    }
    add_extents(pool, extents, &contents);
    if (record.state == NKV_OBJECT_STATE_POISONED) {
      ++contents.poisoned;
      continue;
    }
    ++contents.live;
    ++contents.pieces[record.extents];
    contents.object_bytes += record.bytes;
    auto& [count, bytes] = contents.by_namespace[record.namespace_number];
    ++count;
    bytes += record.bytes;
  }
  return contents;
}

/// One character for each slab.
std::string slab_map(const PoolFile& pool, const Contents& contents) {
  const std::uint64_t slab_grains = pool.header().slab_bytes / NKV_OBJECT_GRAIN_BYTES;
  std::string map;
  for (std::size_t slab = 0; slab < contents.slab_grains.size(); ++slab) {
    const std::uint32_t use = pool.slab_use(slab);
    const std::uint64_t tenths = contents.slab_grains[slab] * 10 / slab_grains;
    if (use == 0) {
      map += '-';
    } else if (use != NKV_SLAB_OF_OBJECTS) {
      map += 'p';
    } else if (contents.slab_grains[slab] == 0) {
      map += '.';
    } else {
      map += tenths >= 10 ? '#' : static_cast<char>('0' + std::max<std::uint64_t>(tenths, 1));
    }
  }
  return map;
}

Json to_json(const PoolFile& pool, const Contents& contents) {
  const nkv_pool_header& header = pool.header();
  Json namespaces = Json::array();
  for (const NamespaceInfo& info : pool.namespaces().list()) {
    const auto found = contents.by_namespace.find(info.number);
    const auto [count, bytes] = found != contents.by_namespace.end()
                                    ? found->second
                                    : std::pair<std::uint64_t, std::uint64_t>();
    namespaces.push_back({{"number", info.number},
                          {"tenant", info.tenant},
                          {"text", info.text},
                          {"objects", count},
                          {"bytes", bytes}});
  }
  Json pieces = Json::object();
  for (const auto& [extents, objects] : contents.pieces) pieces[std::to_string(extents)] = objects;
  return {{"header",
           {{"version", header.version},
            {"total_bytes", header.total_bytes},
            {"slab_bytes", header.slab_bytes},
            {"slabs", header.slabs},
            {"layers", header.layers},
            {"max_sequences", header.max_sequences},
            {"max_namespaces", header.max_namespaces},
            {"max_objects", header.max_objects}}},
          {"tables",
           {{"sequences_at", header.sequences_at},
            {"slabs_at", header.slabs_at},
            {"namespaces_at", header.namespaces_at},
            {"objects_at", header.objects_at},
            {"data_at", header.data_at}}},
          {"served", pool.is_served()},
          {"namespaces", namespaces},
          {"records",
           {{"live", contents.live},
            {"poisoned", contents.poisoned},
            {"free", contents.free},
            {"damaged", contents.damaged}}},
          {"object_bytes", contents.object_bytes},
          {"objects_by_extents", pieces},
          {"slab_map", slab_map(pool, contents)}};
}

void print_text(const Json& json) {
  const auto number = [&](const Json& value) { return count_text(value.get<std::uint64_t>()); };
  const auto size = [&](const Json& value) { return size_text(value.get<std::uint64_t>()); };
  const Json& header = json["header"];
  std::cout << "pool        version " << header["version"] << ", " << size(header["total_bytes"])
            << ", " << number(header["slabs"]) << " slabs of " << size(header["slab_bytes"])
            << (json["served"].get<bool>() ? ", served by a daemon now" : "") << '\n'
            << "tables      ";
  for (const auto& [name, at] : json["tables"].items()) std::cout << name << '=' << at << ' ';
  const Json& records = json["records"];
  std::cout << "\nrecords     " << number(records["live"]) << " live of "
            << size(json["object_bytes"]) << ", " << number(records["poisoned"]) << " poisoned, "
            << number(records["free"]) << " free, " << records["damaged"].size() << " damaged\n"
            << "pieces     ";
  for (const auto& [extents, objects] : json["objects_by_extents"].items()) {
    std::cout << ' ' << extents << ':' << objects;
  }
  std::cout << "\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Json& row : json["namespaces"]) {
    rows.push_back({row["number"].dump(), row["tenant"].dump(), number(row["objects"]),
                    size(row["bytes"]), row["text"].get<std::string>()});
  }
  print_table({"NAMESPACE", "TENANT", "OBJECTS", "BYTES", "TEXT"}, rows);
  if (!records["damaged"].empty()) {
    std::cout << "\ndamaged records " << records["damaged"].dump() << '\n';
  }
  const auto map = json["slab_map"].get<std::string>();
  constexpr std::size_t kColumns = 80;
  std::cout << "\nslabs\n";
  for (std::size_t at = 0; at < map.size(); at += kColumns) {
    std::cout << map.substr(at, kColumns) << '\n';
  }
}

}  // namespace

void add_inspect(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("inspect", "Look into a pool without changing it");
  command->footer(kInspectFooter);
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("pool", *path, "The pool's file or DAX device")->required();
  command->add_flag("--json", *json, "Print JSON");
  command->callback([path, json, exit] {
    std::unique_ptr<PoolFile> pool;
    std::string reason;
    if (PoolFile::open(*path, &pool, &reason) != Status::kOk) throw Failure{reason};
    const Contents contents = read_contents(*pool);
    const Json value = to_json(*pool, contents);
    if (*json) {
      print_json(value);
    } else {
      print_text(value);
    }
    *exit = contents.damaged.empty() ? kDone : kDamaged;
  });
}

}  // namespace nearkv::cli

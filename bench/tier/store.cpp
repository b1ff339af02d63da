#include "store.hpp"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "round_up.hpp"

namespace nearkv::tier_bench {
namespace {

constexpr std::uint64_t kSpareBytes = std::uint64_t{128} << 20;  // groups, slabs begun, tables

}  // namespace

BlockKey key_of(std::uint64_t number) {
  BlockKey key;
  std::uint64_t word = number;
  for (std::size_t at = 0; at < key.size(); at += sizeof(word)) {
    word = (word + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    word ^= word >> 31;
    std::memcpy(key.data() + at, &word, sizeof(word));
  }
  return key;
}

void require(Status status, const std::string& what) {
  if (status != Status::kOk) throw std::runtime_error(what + ": " + std::string(message(status)));
}

std::unique_ptr<ObjectStore> create_store(const std::string& uri,
                                          const ObjectStore::Options& options) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  if (ObjectStore::create(uri, options, &store, &reason) != Status::kOk) {
    throw std::runtime_error(uri + ": " + reason);
  }
  return store;
}

std::unique_ptr<ObjectStore> open_store(const std::string& uri) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  if (ObjectStore::open(uri, {}, &store, &reason) != Status::kOk) {
    throw std::runtime_error(uri + ": " + reason);
  }
  return store;
}

std::string uri_for(const std::string& path, std::uint64_t objects, std::uint64_t object_bytes) {
  const std::uint64_t each =
      round_up(object_bytes, NKV_OBJECT_GRAIN_BYTES) + 2 * sizeof(nkv_object_record);
  const std::uint64_t bytes = objects * each + objects * each / 32 + kSpareBytes;
  return "cpu:" + path + "?memory=" + std::to_string((bytes >> 20) + 1) + "MiB";
}

std::unique_ptr<ObjectStore> create_store_for(const std::string& path, std::size_t objects,
                                              std::size_t object_bytes,
                                              ObjectStore::Options options) {
  options.max_objects = static_cast<std::uint32_t>(objects + objects / 16 + 64);
  return create_store(uri_for(path, objects, object_bytes), options);
}

std::uint32_t open_namespace(ObjectStore* store, std::uint16_t tenant, const std::string& model) {
  Namespace name;
  name.tenant = tenant;
  name.model = model;
  name.dtype = "bf16";
  std::uint32_t number = 0;
  require(store->open_namespace(name, &number), "namespace of " + model);
  return number;
}

ObjectItem set_item(Key key, std::span<const std::span<const std::byte>> source) {
  ObjectItem item = key_item(key);
  item.source = source;
  return item;
}

ObjectItem get_item(Key key, std::span<const std::span<std::byte>> target) {
  ObjectItem item = key_item(key);
  item.target = target;
  return item;
}

ObjectItem key_item(Key key) {
  ObjectItem item;
  item.key = key;
  return item;
}

void run_all_ok(ObjectStore* store, const Job& job, const std::string& what) {
  JobResult result;
  require(store->run(job, &result), what);
  for (const Status status : result.items) require(status, what);
}

ScratchFile::ScratchFile(const std::string& folder)
    : path_(std::filesystem::path(folder) /
            ("nearkv_tier_bench." + std::to_string(::getpid()) + ".pool")) {}

ScratchFile::~ScratchFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::uint64_t free_bytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error ? 0 : space.available;
}

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::string size_text(std::uint64_t bytes) {
  return bytes >= 1 << 20 && bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + "MiB"
                                                    : std::to_string(bytes >> 10) + "KiB";
}

}  // namespace nearkv::tier_bench

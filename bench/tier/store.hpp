// An object store to measure, and keys for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "nearkv/object_store.hpp"

namespace nearkv::tier_bench {

/// As long as engines' hashes are.
using BlockKey = std::array<std::byte, 32>;

[[nodiscard]] BlockKey key_of(std::uint64_t number);

/// Throws std::runtime_error if `status` is not kOk.
void require(Status status, const std::string& what);

/// Throws, as all below, std::runtime_error with the reason.
[[nodiscard]] std::unique_ptr<ObjectStore> create_store(const std::string& uri,
                                                        const ObjectStore::Options& options);
[[nodiscard]] std::unique_ptr<ObjectStore> open_store(const std::string& uri);

/// Makes a store with room for `objects` of `object_bytes`; without a path, in anonymous memory.
[[nodiscard]] std::unique_ptr<ObjectStore> create_store_for(const std::string& path,
                                                            std::size_t objects,
                                                            std::size_t object_bytes,
                                                            ObjectStore::Options options = {});

/// The URI of memory with room for `objects` of `object_bytes`, each rounded to whole grains, and
/// some to spare. Without a path it is anonymous.
[[nodiscard]] std::string uri_for(const std::string& path, std::uint64_t objects,
                                  std::uint64_t object_bytes);

[[nodiscard]] std::uint32_t open_namespace(ObjectStore* store, std::uint16_t tenant,
                                           const std::string& model);

/// What one item of a kSet, a kGet or any other job says. The lists of segments are the caller's.
[[nodiscard]] ObjectItem set_item(Key key, std::span<const std::span<const std::byte>> source);
[[nodiscard]] ObjectItem get_item(Key key, std::span<const std::span<std::byte>> target);
[[nodiscard]] ObjectItem key_item(Key key);

/// Runs a job of which every item must succeed.
void run_all_ok(ObjectStore* store, const Job& job, const std::string& what);

/// A path in a folder, for a file that is gone with this.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Bytes that a folder's file system has left.
[[nodiscard]] std::uint64_t free_bytes(const std::string& folder);

/// Of main memory, what can be had without pushing anybody out.
[[nodiscard]] std::uint64_t available_memory_bytes();

/// "256KiB", "2MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace nearkv::tier_bench

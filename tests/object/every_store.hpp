// A store wherever it may live, for tests that run on all of them.
#ifndef NEARKV_TESTS_OBJECT_EVERY_STORE_HPP_
#define NEARKV_TESTS_OBJECT_EVERY_STORE_HPP_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/daemon_process.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {

inline constexpr std::size_t kKiB = 1024;

inline Namespace engine(const std::string& model = "llama") {
  Namespace name;
  name.tenant = 1;
  name.model = model;
  name.dtype = "bf16";
  name.layout = "LBHNC";
  return name;
}

/// Where a store lives, of store_places(). A daemon's keeps all that the others promise.
class EveryStoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { make("64MiB"); }

  /// By default nothing moves but what a test moves.
  void make(const std::string& memory, double defragment_above = 0) {
    store_.reset();
    if (GetParam() == "daemon") {
      daemon_.emplace("scrub_rate = 0\neviction = \"lru\"", [&](const auto&) {
        return "[pool]\nsize = \"" + memory +
               "\"\ndefragment_above = " + std::to_string(defragment_above) +
               "\nmax_namespaces = " + std::to_string(max_namespaces_) + "\n";
      });
      store_ = connect_to(daemon_->socket(), 128 << 20);
    } else {
      make_here(memory, defragment_above);
    }
    ASSERT_NE(store_, nullptr);
    ASSERT_EQ(store_->open_namespace(engine(), &space_), Status::kOk);
  }

  void make_here(const std::string& memory, double defragment_above) {
    ObjectStore::Options options;
    options.eviction = "lru";
    options.max_namespaces = max_namespaces_;
    options.defragment_above = defragment_above;
    std::string reason;
    const std::string uri = GetParam() == "file"
                                ? "file:" + file_.path().string() + "?memory=" + memory
                                : "cpu:?memory=" + memory;
    if (GetParam() == "sealed") options.seal_key_file = key_file();
    ASSERT_EQ(ObjectStore::create(uri, options, &store_, &reason), Status::kOk) << reason;
    if (GetParam() == "stack") put_on_top(options);
  }

  [[nodiscard]] std::string key_file() const {
    std::ofstream(key_.path(), std::ios::binary) << std::string(32, 'k');
    std::filesystem::permissions(
        key_.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return key_.path();
  }

  /// Makes the store the lower of two tiers.
  void put_on_top(const ObjectStore::Options& options) {
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    tiers[1] = std::move(store_);
    std::string reason;
    ASSERT_EQ(ObjectStore::create("cpu:?memory=32MiB", options, &tiers[0], &reason), Status::kOk)
        << reason;
    StackOptions stack;
    stack.patience = std::chrono::milliseconds(10);
    ASSERT_EQ(ObjectStore::stack(std::move(tiers), stack, &store_, &reason), Status::kOk) << reason;
  }

  TemporaryFile file_{"object_store"};
  TemporaryFile key_{"object_store_key"};
  std::optional<DaemonProcess> daemon_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
  std::uint32_t max_namespaces_ = 1024;  ///< Of stores that are made from then on.
};

inline auto store_places() {
  return testing::Values("memory", "file", "sealed", "stack", "daemon");
}

inline std::string name_of(const testing::TestParamInfo<std::string>& place) { return place.param; }

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_OBJECT_EVERY_STORE_HPP_

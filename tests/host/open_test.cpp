// What cannot be opened says why, and what to do.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "support/devices.hpp"
#include "support/layer_rows.hpp"
#include "support/temporary_file.hpp"
#include "support/temporary_folder.hpp"

namespace nearkv::test {
namespace {

struct Refusal {
  std::string uri;
  Status status;
  std::string reason;  ///< A part of it.
};

void expect_refused(const Refusal& refusal) {
  SCOPED_TRACE(refusal.uri);
  std::unique_ptr<Device> device;
  std::string reason;
  EXPECT_EQ(open_device(refusal.uri, &device, &reason), refusal.status);
  EXPECT_EQ(device, nullptr);
  EXPECT_NE(reason.find(refusal.reason), std::string::npos) << reason;
  EXPECT_EQ(open_device(refusal.uri, &device), refusal.status) << "without a reason";
}

TEST(OpenTest, MalformedUrisAreRefused) {
  for (const Refusal& refusal : {
           Refusal{"", Status::kBadUri, "expected SCHEME:"},
           {"cpu", Status::kBadUri, "expected SCHEME:"},
           {":", Status::kBadUri, "expected SCHEME:"},
           {"CPU:", Status::kBadUri, "lower-case"},
           {"../x:", Status::kBadUri, "lower-case"},
           {"cpu:?memory", Status::kBadUri, "key=value"},
           {"cpu:?=1", Status::kBadUri, "key=value"},
           {"cpu:?threads=1&threads=2", Status::kBadUri, "twice"},
           {"cpu:?memory=1.5GiB", Status::kBadUri, "memory=1.5GiB"},
           {"cpu:?memory=99999999TiB", Status::kBadUri, "not a size"},
           {"cpu:?memory=-1", Status::kBadUri, "not a size"},
           {"cpu:?threads=many", Status::kBadUri, "threads=many"},
           {"cpu:?threads=100000", Status::kBadUri, "not a number of threads"},
           {"cpu:?node=x", Status::kBadUri, "NUMA node"},
           {"cpu:?huge=maybe", Status::kBadUri, "neither on nor off"},
           {"cpu:?speed=11", Status::kBadUri, "unknown option 'speed'"},
           {"cpu:/nonexistent/folder/file?memory=4MiB", Status::kIoError, "No such file"},
           {"cpu:/dev/null?memory=4MiB", Status::kBadUri, "not a DAX device"},
           {"model:?memory=64MB", Status::kNoDevice, "memory=SIZE"},
           {"model:?threads=2", Status::kNoDevice, "memory=SIZE"},
           {"nosuch:", Status::kNoDevice, "libnearkv_nosuch.so"},
       }) {
    expect_refused(refusal);
  }
}

TEST(OpenTest, MemoryThatNobodyHasIsRefused) {
  expect_refused({"cpu:?memory=9000000TiB", Status::kOutOfMemory, "device memory"});
  expect_refused({"cpu:?memory=18446744073709551615", Status::kOutOfMemory, "device memory"});
}

/// From here on this process has so many threads at most. Root is refused none: it becomes a user
/// that nobody else is.
void have_threads(rlim_t most) {
  constexpr uid_t kNobodyElse = 54321;
  const rlimit limit{most, most};
  const bool is_root = ::geteuid() == 0;
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0 ||
      (is_root && ::setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0)) {
    std::perror("setting a limit of threads");
    std::_Exit(2);
  }
}

/// Ends the process: with 0 if it was refused for want of threads.
[[noreturn]] void open_with_few_threads(const std::string& uri) {
  have_threads(4);
  std::unique_ptr<Device> device;
  std::string reason;
  const Status status = open_device(uri, &device, &reason);
  const bool is_told = status == Status::kOutOfMemory && reason.find("threads=") != reason.npos;
  std::cerr << message(status) << ": " << reason << '\n';
  std::_Exit(is_told ? 0 : 1);
}

TEST(OpenTest, ThreadsThatTheSystemRefusesAreNamed) {
  // Workers that follow others, and the dispatcher, which comes last.
  for (const char* uri : {"cpu:?memory=4MiB&threads=16", "cpu:?memory=4MiB&threads=4"}) {
    EXPECT_EXIT(open_with_few_threads(uri), testing::ExitedWithCode(0), "threads=") << uri;
  }
}

TEST(OpenTest, AnEmptyFileNeedsASize) {
  const TemporaryFile file("empty");
  expect_refused({"cpu:" + file.path().string(), Status::kBadUri, "memory=SIZE"});
}

TEST(OpenTest, DevicesOfAnotherContractAreRefused) {
  ASSERT_EQ(::setenv("NEARKV_PLUGIN_PATH", NEARKV_TEST_PLUGINS, 1), 0);
  const std::pair<const char*, Refusal> cases[] = {
      {"id", {"fake:", Status::kBadAbi, "ID register reads 0x"}},
      {"abi", {"fake:", Status::kBadAbi, "the device speaks ABI 99"}},
      {"version", {"fake:", Status::kNoDevice, "rebuild it"}},
      {"refuses", {"fake:", Status::kNoDevice, "no card in the slot"}},
      {"", {"notaplugin:", Status::kNoDevice, "libnearkv_notaplugin.so"}},
  };
  for (const auto& [wrong, refusal] : cases) {
    SCOPED_TRACE(wrong);
    ASSERT_EQ(::setenv("NEARKV_FAKE_DEVICE", wrong, 1), 0);
    expect_refused(refusal);
  }
  ::unsetenv("NEARKV_FAKE_DEVICE");
  ::unsetenv("NEARKV_PLUGIN_PATH");
}

// Also where root may look: a link to itself, a file, nothing, and a name that no file has.
TEST(OpenTest, FoldersThatCannotBeLookedIntoHoldNoPlugins) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.file("loop"), folder.file("loop"));
  std::ofstream(folder.file("file")) << "no folder\n";
  const std::string path =
      folder.file("loop") + ":" + folder.file("file") + ":" + folder.file("missing");
  ASSERT_EQ(::setenv("NEARKV_PLUGIN_PATH", path.c_str(), 1), 0);
  expect_refused({"nosuch:", Status::kNoDevice, "libnearkv_nosuch.so"});
  expect_refused({std::string(300, 'x') + ":", Status::kNoDevice, "no device for scheme"});
  std::unique_ptr<Device> device;
  std::string reason;
  EXPECT_EQ(open_device("model:?memory=4MiB", &device, &reason), Status::kOk) << reason;
  ::unsetenv("NEARKV_PLUGIN_PATH");
}

/// Opens the pool of a device over `file`.
Status open_pool(const TemporaryFile& file, const Pool::Options& options, std::string* reason) {
  std::unique_ptr<Device> device;
  if (open_device(file.uri("8MiB"), &device, reason) != Status::kOk) return Status::kNoDevice;
  std::unique_ptr<Pool> pool;
  return Pool::open(std::move(device), options, &pool, reason);
}

class PoolFileTest : public testing::Test {
 protected:
  void SetUp() override { create_or_throw(open_or_throw(file_.uri("8MiB")), small_pool()); }

  void overwrite_byte(std::size_t at, char value) {
    std::fstream file(file_.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
  }

  /// Changes a byte in both copies of the header.
  void overwrite(std::size_t at, char value) {
    overwrite_byte(at, value);
    overwrite_byte(NKV_POOL_HEADER_COPY_AT + at, value);
  }

  void expect_refused_pool(const Pool::Options& options, const std::string& why) {
    std::string reason;
    EXPECT_EQ(open_pool(file_, options, &reason), Status::kBadPool);
    EXPECT_NE(reason.find(why), std::string::npos) << reason;
  }

  TemporaryFile file_{"pool"};
};

TEST_F(PoolFileTest, OpensAgain) {
  std::string reason;
  EXPECT_EQ(open_pool(file_, small_pool(), &reason), Status::kOk) << reason;
}

TEST_F(PoolFileTest, ThatHoldsNoPoolIsRefused) {
  overwrite(offsetof(nkv_pool_header, magic), 'X');
  expect_refused_pool(small_pool(), "holds no NearKV pool");
}

TEST_F(PoolFileTest, OfAnotherVersionIsRefused) {
  for (const int version : {4, 9}) {
    overwrite(offsetof(nkv_pool_header, version), static_cast<char>(version));
    expect_refused_pool(small_pool(), "format " + std::to_string(version));
    expect_refused_pool(small_pool(), "delete it and create one");
    expect_refused_pool(small_pool(), "read it out with the version of NearKV that wrote it");
  }
}

TEST_F(PoolFileTest, WithADamagedHeaderIsRefused) {
  overwrite(offsetof(nkv_pool_header, kv_heads), 77);
  expect_refused_pool(small_pool(), "damaged");
}

TEST_F(PoolFileTest, WithOneWholeHeaderOpens) {
  std::string reason;
  overwrite_byte(offsetof(nkv_pool_header, magic), 'X');
  EXPECT_EQ(open_pool(file_, small_pool(), &reason), Status::kOk) << reason;
  overwrite_byte(offsetof(nkv_pool_header, magic), 'N');
  overwrite_byte(offsetof(nkv_pool_header, seed), 77);
  EXPECT_EQ(open_pool(file_, small_pool(), &reason), Status::kOk) << reason;
}

TEST_F(PoolFileTest, OfAnotherShapeIsRefused) {
  Pool::Options options = small_pool();
  options.shape.head_dim = 128;
  expect_refused_pool(options, "another shape or size");
}

TEST_F(PoolFileTest, ThatWasTruncatedIsRefused) {
  std::filesystem::resize_file(file_.path(), 4 << 20);
  std::unique_ptr<Pool> pool;
  std::string reason;
  EXPECT_EQ(Pool::open(open_or_throw("cpu:" + file_.path().string()), small_pool(), &pool, &reason),
            Status::kBadPool);
  EXPECT_NE(reason.find("another shape or size"), std::string::npos) << reason;
}

TEST(PoolOptionsTest, ThatMakeNoSenseAreRefused) {
  const std::shared_ptr<Device> device = open_or_throw("cpu:?memory=8MiB&threads=1");
  std::string reason;
  const auto create = [&](const auto& change) {
    Pool::Options options = small_pool();
    change(&options);
    std::unique_ptr<Pool> pool;
    reason.clear();
    return Pool::create(device, options, &pool, &reason);
  };
  using Options = Pool::Options;
  EXPECT_EQ(create([](Options*) {}), Status::kOk) << reason;
  for (const auto& change :
       {+[](Options* o) { o->shape.layers = 0; }, +[](Options* o) { o->shape.kv_heads = 0; },
        +[](Options* o) { o->shape.head_dim = 8; }, +[](Options* o) { o->shape.head_dim = 592; },
        +[](Options* o) { o->shape.value_dim = 24; }, +[](Options* o) { o->shape.value_dim = 0; },
        +[](Options* o) { o->shape.dtype = NKV_DTYPE_FP32; },
        +[](Options* o) { o->shape.dtype = NKV_DTYPE_FP16; },
        +[](Options* o) { o->shape.dtype = 200; },
        +[](Options* o) { o->shape.k_form = NKV_ROW_FORM_NONE; },
        +[](Options* o) { o->shape.v_form = 17; }, +[](Options* o) { o->max_sequences = 0; }}) {
    EXPECT_EQ(create(change), Status::kBadArgument);
    EXPECT_NE(reason, "");
  }
  for (const auto& change : {+[](Options* o) { o->max_sequences = 0xFFFFFFFF; },
                             +[](Options* o) { o->staging_bytes = ~std::uint64_t{0} / 2; },
                             +[](Options* o) { o->staging_bytes = ~std::uint64_t{0}; }}) {
    EXPECT_EQ(create(change), Status::kPoolFull);
    EXPECT_NE(reason.find("MiB"), std::string::npos) << reason;
  }
}

TEST(PoolOptionsTest, ThatDoNotFitNameWhatWould) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const std::shared_ptr<Device> device = open_or_throw("cpu:?memory=64MiB&threads=1");
  std::string reason;
  const auto create = [&](std::uint64_t memory_bytes, std::uint64_t staging_bytes) {
    Pool::Options options = small_pool();
    options.memory_bytes = memory_bytes;
    options.staging_bytes = staging_bytes;
    std::unique_ptr<Pool> pool;
    return Pool::create(device, options, &pool, &reason);
  };
  const auto number_after = [&](const std::string& words) -> std::uint64_t {
    const std::size_t at = reason.find(words);
    EXPECT_NE(at, std::string::npos) << reason;
    return at == std::string::npos ? kMiB : std::stoull(reason.substr(at + words.size()));
  };
  EXPECT_EQ(create(64 * kMiB, 4096), Status::kPoolFull);
  const std::uint64_t staging_bytes = number_after("staging_bytes must be at least ");
  EXPECT_EQ(create(64 * kMiB, staging_bytes - 4096), Status::kPoolFull);
  EXPECT_EQ(create(64 * kMiB, staging_bytes), Status::kOk) << reason;

  EXPECT_EQ(create(kMiB / 2, 0), Status::kPoolFull);
  const std::uint64_t mib = number_after("needs at least ");
  EXPECT_EQ(create(mib * kMiB, 0), Status::kOk) << reason;
}

}  // namespace
}  // namespace nearkv::test

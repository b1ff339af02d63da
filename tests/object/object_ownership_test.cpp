// One store or device has a pool's file at a time, and a start that fails leaves no file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "nearkv/device.hpp"
#include "object/every_store.hpp"

namespace nearkv::test {
namespace {

namespace fs = std::filesystem;

class OwnershipTest : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::string uri(const fs::path& path, const std::string& size = "32MiB") const {
    return GetParam() + ":" + path.string() + "?memory=" + size + "&huge=off";
  }
  /// Opens or makes a store; its status, and the reason in reason().
  Status start(const std::string& place) {
    store_.reset();
    return ObjectStore::open_or_create(place, {}, &store_, &reason_);
  }
  ObjectStore* store() { return store_.get(); }
  const std::string& reason() { return reason_; }
  [[nodiscard]] const fs::path& path() const { return path_; }

  void put_object() {
    std::uint32_t space = 0;
    ASSERT_EQ(store()->open_namespace(engine(), &space), Status::kOk);
    ASSERT_EQ(set(store(), space, key_of(1), contents(1, 1000)), Status::kOk);
  }
  void expect_object() {
    std::uint32_t space = 0;
    ASSERT_EQ(store()->open_namespace(engine(), &space), Status::kOk);
    Bytes found;
    EXPECT_EQ(get(store(), space, key_of(1), &found), Status::kOk);
    EXPECT_EQ(found, contents(1, 1000));
  }

 private:
  const TemporaryFile file_{"owned"};
  const fs::path path_ = file_.path();
  std::unique_ptr<ObjectStore> store_;
  std::string reason_;
};

INSTANTIATE_TEST_SUITE_P(In, OwnershipTest, testing::Values("cpu", "file"),
                         [](const auto& place) { return place.param; });

TEST_P(OwnershipTest, ASecondOwnerIsRefusedByWhateverName) {
  ASSERT_EQ(start(uri(path())), Status::kOk) << reason();
  put_object();
  const fs::path hard = path().string() + ".hard", soft = path().string() + ".soft";
  fs::create_hard_link(path(), hard);
  fs::create_symlink(path(), soft);
  for (const fs::path& name : {path(), hard, soft}) {
    SCOPED_TRACE(name);
    std::unique_ptr<ObjectStore> second;
    std::string why;
    EXPECT_EQ(ObjectStore::open(uri(name), {}, &second, &why), Status::kBusy);
    EXPECT_NE(why.find("has this pool open"), std::string::npos) << why;
    EXPECT_EQ(ObjectStore::create(uri(name), {}, &second, &why), Status::kBusy);
    EXPECT_EQ(ObjectStore::open_or_create(uri(name), {}, &second, &why), Status::kBusy);
    std::unique_ptr<Device> device;
    EXPECT_EQ(open_device("cpu:" + name.string(), &device, &why), Status::kBusy);
  }
  fs::remove(hard);
  fs::remove(soft);
  expect_object();
  ASSERT_EQ(start(uri(path())), Status::kOk) << reason();
  expect_object();
}

TEST_P(OwnershipTest, APoolWhoseOwnerWasKilledIsFree) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const char is_open = start(uri(path())) == Status::kOk ? 1 : 0;
    if (::write(ready[1], &is_open, 1) == 1) ::pause();
    ::_exit(1);
  }
  char is_open = 0;
  ASSERT_EQ(::read(ready[0], &is_open, 1), 1);
  ASSERT_EQ(is_open, 1);
  EXPECT_EQ(start(uri(path())), Status::kBusy);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(start(uri(path())), Status::kOk) << reason();
}

TEST_P(OwnershipTest, AStartThatFailsLeavesNoFile) {
  fs::remove(path());
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit full{1 << 20, usual.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const Status status = start(uri(path()));
  ::setrlimit(RLIMIT_FSIZE, &usual);
  ::signal(SIGXFSZ, ignored);
  EXPECT_EQ(status, Status::kIoError);
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(start(uri(path())), Status::kOk) << reason();
}

TEST_P(OwnershipTest, AFileThatNothingWasWrittenToBecomesAPool) {
  for (const std::uintmax_t zeros : {std::uintmax_t{0}, std::uintmax_t{32} << 20}) {
    std::ofstream(path(), std::ios::trunc).flush();
    fs::resize_file(path(), zeros);
    ASSERT_EQ(start(uri(path())), Status::kOk) << reason();
    put_object();
    ASSERT_EQ(start(uri(path())), Status::kOk) << reason();
    expect_object();
  }
}

TEST_P(OwnershipTest, SomebodyElsesFileIsLeftAsItIs) {
  std::ofstream(path()) << "minutes of a meeting";
  EXPECT_NE(start(uri(path())), Status::kOk);
  std::string text;
  std::ifstream file(path());
  std::getline(file, text);
  EXPECT_EQ(text, "minutes of a meeting");
}

TEST_P(OwnershipTest, APoolKeepsItsSizeWhateverIsAskedFor) {
  ASSERT_EQ(start(uri(path())), Status::kOk) << reason();
  put_object();
  const std::uint64_t total_bytes = store()->stats().total_bytes;
  for (const char* const size : {"16MiB", "64MiB"}) {
    ASSERT_EQ(start(uri(path(), size)), Status::kOk) << reason();
    expect_object();
    EXPECT_EQ(store()->stats().total_bytes, total_bytes);
  }
}

}  // namespace
}  // namespace nearkv::test

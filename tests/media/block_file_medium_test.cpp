// What the medium itself does to a block file: it is full, limited, cut short, in memory, or
// io_uring is forbidden. Real faults, each in a process of its own.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "block_file_fixture.hpp"
#include "support/in_child.hpp"

namespace nearkv::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Engines, BlockFileTest,
                         testing::Values(BlockEngineKind::kUring, BlockEngineKind::kThreads),
                         engine_name);

std::unique_ptr<BlockFile> open_in_child(const BlockFileOptions& options) {
  std::unique_ptr<BlockFile> file;
  std::string reason;
  const Status status = BlockFile::open(options, &file, &reason);
  if (status == Status::kUnsupported) ::_exit(kCannot);
  expect(status == Status::kOk, "the file opens", reason);
  return file;
}

/// Leaves only the first bytes of the file.
void cut(const std::filesystem::path& path, std::uint64_t bytes) {
  std::filesystem::resize_file(path, bytes);
}

TEST_P(BlockFileTest, AFileCutShortIsAnErrorOfWhatIsGone) {
  OPEN_OR_SKIP(file, options(place_.path()));
  cut(place_.path(), 3 * kBlockBytes + 100);
  BlockMemory memory(5 * kBlockBytes, 0);
  std::vector<BlockRequest> requests = {
      read_request(0, memory.span().first(3 * kBlockBytes)),
      read_request(3 * kBlockBytes, memory.span().subspan(3 * kBlockBytes, kBlockBytes)),
      read_request(8 * kBlockBytes, memory.span().subspan(4 * kBlockBytes, kBlockBytes))};
  EXPECT_EQ(file->run(requests), Status::kIoError);
  EXPECT_EQ(requests[0].status, Status::kOk);
  EXPECT_EQ(requests[1].status, Status::kIoError);
  EXPECT_EQ(requests[2].status, Status::kIoError);
}

TEST_P(BlockFileTest, BeyondTheLimitOfFilesIsFull) {
  in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto file = open_in_child(options(place_.path()));
    cut(place_.path(), 16 * kBlockBytes);
    const rlimit limit = {32 * kBlockBytes, 32 * kBlockBytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    BlockMemory memory(kBlockBytes, 0);
    std::vector<BlockRequest> requests = {write_request(20 * kBlockBytes, memory.span()),
                                          write_request(40 * kBlockBytes, memory.span())};
    expect(file->run(requests) == Status::kPoolFull, "the batch is full", file->last_error());
    expect(requests[0].status == Status::kOk, "what fits is written");
    expect(requests[1].status == Status::kPoolFull, "what does not is full");
    std::unique_ptr<BlockFile> larger;
    std::string reason;
    expect(BlockFile::open(options(place_.path()), &larger, &reason) == Status::kPoolFull,
           "it cannot be reserved again", reason);
    return 0;
  });
}

/// A file system of 1 MiB that this process alone sees; exits if the machine does not allow it.
std::filesystem::path mount_small(const std::filesystem::path& at) {
  std::filesystem::create_directory(at);
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(kCannot);
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("none", at.c_str(), "tmpfs", 0, "size=1m") != 0) ::_exit(kCannot);
  return at;
}

TEST_P(BlockFileTest, AFullFileSystemIsFullWhenTheFileIsMade) {
  in_child([&] {
    const auto path = mount_small(place_.path()) / "file";
    std::unique_ptr<BlockFile> file;
    std::string reason;
    const Status status = BlockFile::open(options(path, kBytes), &file, &reason);
    if (status == Status::kUnsupported) return kCannot;
    expect(status == Status::kPoolFull, "2 MiB do not fit", reason);
    expect(std::filesystem::file_size(path) == 0, "what was reserved in part is given back");
    const auto smaller = open_in_child(options(path, 512 << 10));
    expect(smaller->bytes() == 512 << 10, "512 KiB do");
    BlockMemory memory(512 << 10, 3);
    BlockRequest request = write_request(0, memory.span());
    expect(smaller->run({&request, 1}) == Status::kOk, "reserved space can be written");

    // Somebody gives the space away behind our back.
    cut(path, kBlockBytes);
    expect(open_in_child(options(path.string() + "2", 1000 << 10)) != nullptr, "another file");
    std::vector<BlockRequest> requests = {write_request(0, memory.span().first(kBlockBytes)),
                                          write_request(256 << 10, memory.span().first(256 << 10))};
    expect(smaller->run(requests) == Status::kPoolFull, "the batch is full", smaller->last_error());
    expect(requests[0].status == Status::kOk, "what has its space is written");
    return 0;
  });
}

TEST_P(BlockFileTest, WhereThePageCacheCannotBePassedItSaysSo) {
  in_child([&] {
    const auto file = open_in_child(options(mount_small(place_.path()) / "file", 256 << 10));
    expect(file->direct() == file->fallback_reason().empty(), "a reason for every fallback",
           file->fallback_reason());
    BlockMemory memory(256 << 10, 1);
    Random random = case_random(0);
    fill(memory.span(), random);
    BlockMemory back(256 << 10, 2);
    BlockRequest request = write_request(0, memory.span());
    expect(file->run({&request, 1}) == Status::kOk, "it writes", file->last_error());
    request = read_request(0, back.span());
    expect(file->run({&request, 1}) == Status::kOk, "it reads", file->last_error());
    expect(std::ranges::equal(memory.span(), back.span()), "it reads what it wrote");
    expect(file->sync() == Status::kOk, "it syncs", file->last_error());
    return 0;
  });
}

/// From now on io_uring_setup fails in this process.
bool forbid_io_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

class BlockFileMediumTest : public testing::Test {
 protected:
  TemporaryFile place_{"block_file_medium"};
};

TEST_F(BlockFileMediumTest, WhereIoUringIsForbiddenThreadsDoItAndItSaysWhy) {
  in_child([&] {
    if (!forbid_io_uring()) return kCannot;
    BlockFileOptions options;
    options.path = place_.path();
    options.bytes = 64 * kBlockBytes;
    const auto file = open_in_child(options);
    expect(std::string(file->engine()) == "threads", "threads stand in", file->engine());
    expect(file->fallback_reason().find("io_uring: Operation not permitted") != std::string::npos,
           "the reason is told", file->fallback_reason());
    BlockMemory memory(kBlockBytes, 0);
    BlockRequest request = write_request(0, memory.span());
    expect(file->run({&request, 1}) == Status::kOk, "it writes", file->last_error());
    options.engine = BlockEngineKind::kUring;
    std::unique_ptr<BlockFile> refused;
    std::string reason;
    expect(BlockFile::open(options, &refused, &reason) == Status::kUnsupported,
           "io_uring or nothing is nothing", reason);
    return 0;
  });
}

TEST_F(BlockFileMediumTest, FilesThatCannotServeAreRefusedWithAReason) {
  struct Case {
    const char* what;
    BlockFileOptions options;
    Status expected;
  };
  const std::string path = place_.path();
  const std::string folder = std::filesystem::temp_directory_path();
  const Case cases[] = {
      {"absent", {.path = path, .bytes = 0, .create = false}, Status::kIoError},
      {"no folder", {.path = path + "/x/y", .bytes = kBlockBytes}, Status::kIoError},
      {"a folder", {.path = folder, .bytes = kBlockBytes}, Status::kIoError},
      {"a device", {.path = "/dev/null", .bytes = kBlockBytes}, Status::kBadArgument},
      {"no depth", {.path = path, .bytes = kBlockBytes, .depth = 0}, Status::kBadArgument},
      {"odd size", {.path = path, .bytes = 100}, Status::kBadArgument},
      {"no size", {.path = path, .bytes = 0}, Status::kBadArgument},
  };
  for (const Case& refused : cases) {
    SCOPED_TRACE(refused.what);
    std::unique_ptr<BlockFile> file;
    std::string reason;
    EXPECT_EQ(BlockFile::open(refused.options, &file, &reason), refused.expected) << reason;
    EXPECT_EQ(file, nullptr);
    EXPECT_NE(reason.find(refused.options.path), std::string::npos) << reason;
  }
}

TEST_F(BlockFileMediumTest, AllBytesAreReservedEvenInAFileWithHoles) {
  std::FILE* const sparse = std::fopen(place_.path().c_str(), "w");
  ASSERT_NE(sparse, nullptr);
  std::fclose(sparse);
  std::filesystem::resize_file(place_.path(), 1 << 20);
  std::unique_ptr<BlockFile> file;
  std::string reason;
  ASSERT_EQ(BlockFile::open({.path = place_.path()}, &file, &reason), Status::kOk) << reason;
  struct stat info{};
  ASSERT_EQ(::stat(place_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 1 << 20);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
}

}  // namespace
}  // namespace nearkv::test

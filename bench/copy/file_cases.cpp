#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "arena.hpp"
#include "cases.hpp"
#include "media/block_file.hpp"

namespace nearkv::bench {
namespace {

constexpr std::size_t kSequentialBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastObjectBytes = std::size_t{64} << 10;  // below, it is the disk's latency
constexpr std::size_t kBatch = 16;  // objects that a tier moves in one call

/// What dd does with iflag=direct or oflag=direct and bs=1M.
class Sequential {
 public:
  explicit Sequential(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC)) {
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) throw std::runtime_error(path + ": cannot be opened");
  }
  Sequential(const Sequential&) = delete;
  Sequential& operator=(const Sequential&) = delete;
  ~Sequential() { ::close(fd_); }

  void run(BlockOperation operation, std::span<std::byte> memory) const {
    for (std::size_t at = 0; at < memory.size(); at += kSequentialBytes) {
      const std::span<std::byte> block = memory.subspan(at, kSequentialBytes);
      const auto offset = static_cast<off_t>(at);
      const ::ssize_t bytes = operation == BlockOperation::kRead
                                  ? ::pread(fd_, block.data(), block.size(), offset)
                                  : ::pwrite(fd_, block.data(), block.size(), offset);
      if (bytes != static_cast<::ssize_t>(block.size())) throw std::runtime_error("short transfer");
    }
    if (operation == BlockOperation::kWrite && ::fdatasync(fd_) != 0) {
      throw std::runtime_error("cannot sync");
    }
  }

 private:
  int fd_;
};

/// All objects in random order, in batches, and a sync after writes.
void run_batches(BlockFile* file, BlockOperation operation, std::span<std::byte> memory,
                 std::size_t object_bytes) {
  const auto order = shuffled(file->bytes() / object_bytes, 1);
  for (std::size_t first = 0; first < order.size(); first += kBatch) {
    std::vector<BlockRequest> requests;
    for (std::size_t i = first; i < std::min(order.size(), first + kBatch); ++i) {
      const std::size_t at = order[i] * object_bytes;
      requests.push_back(
          {.operation = operation, .offset_bytes = at, .memory = memory.subspan(at, object_bytes)});
    }
    if (file->run(requests) != Status::kOk) throw std::runtime_error(file->last_error());
  }
  if (operation == BlockOperation::kWrite && file->sync() != Status::kOk) {
    throw std::runtime_error(file->last_error());
  }
}

std::unique_ptr<BlockFile> open_file(const Options& options, const std::string& path,
                                     BlockEngineKind engine) {
  std::unique_ptr<BlockFile> file;
  std::string reason;
  BlockFileOptions chosen;
  chosen.path = path;
  chosen.bytes = options.file_bytes;
  chosen.engine = engine;
  chosen.timeout = std::chrono::minutes(2);
  const Status status = BlockFile::open(chosen, &file, &reason);
  if (status == Status::kUnsupported) return nullptr;
  if (status != Status::kOk) throw std::runtime_error(reason);
  return file;
}

/// A file that is gone with its object.
struct ScratchFile {
  std::string path;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

void compare_files(const Options& options, Report* report) {
  const ScratchFile scratch{options.directory + "/nearkv_copy_bench." + std::to_string(::getpid())};
  Arena arena(options.file_bytes + kBlockBytes, 1);
  const std::span<std::byte> aligned = arena.span().first(options.file_bytes);
  const std::span<std::byte> misaligned = arena.span().subspan(40, options.file_bytes);
  const auto uring = open_file(options, scratch.path, BlockEngineKind::kUring);
  const auto threads = open_file(options, scratch.path, BlockEngineKind::kThreads);
  const Sequential sequential(scratch.path);
  sequential.run(BlockOperation::kWrite, aligned);  // no later read meets a hole
  for (const std::size_t object_bytes : options.object_bytes) {
    if (object_bytes < kLeastObjectBytes || options.file_bytes / object_bytes < kBatch) continue;
    for (const BlockOperation operation : {BlockOperation::kRead, BlockOperation::kWrite}) {
      std::vector<Contender> contenders = {
          {"sequential, 1 MiB calls", [&] { sequential.run(operation, aligned); }},
          {"pread/pwrite threads",
           [&] { run_batches(threads.get(), operation, aligned, object_bytes); }},
      };
      if (uring != nullptr) {
        contenders.push_back(
            {"io_uring", [&] { run_batches(uring.get(), operation, aligned, object_bytes); }});
        contenders.push_back({"io_uring, misaligned memory", [&] {
                                run_batches(uring.get(), operation, misaligned, object_bytes);
                              }});
      }
      const std::string kind = operation == BlockOperation::kRead ? "read" : "write";
      report->compare({.name = "file/" + kind + "/" + std::to_string(object_bytes >> 10) + "KiB",
                       .bytes = options.file_bytes / object_bytes * object_bytes,
                       .extra = {{"object_bytes", object_bytes},
                                 {"file_bytes", options.file_bytes},
                                 {"objects_in_a_batch", kBatch},
                                 {"past_page_cache", threads->direct()}}},
                      contenders);
    }
  }
}

}  // namespace nearkv::bench

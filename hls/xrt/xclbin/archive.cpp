#include "xrt/xclbin/archive.hpp"

#include <minizip/zip.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace nearkv::hw_emu {

namespace {

/// A file without a name, which minizip opens by a path.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("archive", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  int file_;
};

bool add(zipFile archive, const ArchivedFile& file) {
  constexpr unsigned long kExecutable = 0100755UL << 16;  // Of Unix, in the upper half.
  zip_fileinfo info{};
  info.external_fa = kExecutable;
  return ::zipOpenNewFileInZip(archive, file.path.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                               Z_DEFLATED, Z_BEST_SPEED) == ZIP_OK &&
         ::zipWriteInFileInZip(archive, file.bytes.data(),
                               static_cast<unsigned>(file.bytes.size())) == ZIP_OK &&
         ::zipCloseFileInZip(archive) == ZIP_OK;
}

}  // namespace

std::string make_archive(const std::vector<ArchivedFile>& files) {
  const MemoryFile memory;
  const zipFile archive = ::zipOpen(memory.path().c_str(), APPEND_STATUS_CREATE);
  if (archive == nullptr) throw std::runtime_error("the simulator's archive cannot be made");
  bool is_good = true;
  for (const ArchivedFile& file : files) is_good = is_good && add(archive, file);
  if (::zipClose(archive, nullptr) != ZIP_OK || !is_good) {
    throw std::runtime_error("the simulator's archive cannot be written");
  }
  return memory.bytes();
}

}  // namespace nearkv::hw_emu

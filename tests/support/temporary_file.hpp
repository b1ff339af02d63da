// A path for a file that is gone with the test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace nearkv::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("nearkv_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove(path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// A cpu: device over the file.
  [[nodiscard]] std::string uri(const std::string& memory) const {
    return "cpu:" + path_.string() + "?memory=" + memory + "&threads=2&huge=off";
  }

 private:
  std::filesystem::path path_;
};

}  // namespace nearkv::test

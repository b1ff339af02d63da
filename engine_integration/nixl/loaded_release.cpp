#include "loaded_release.hpp"

#include <link.h>

#include <filesystem>
#include <string_view>

namespace nearkv::nixl {
namespace {

constexpr std::string_view kBegin = "nixl_cu";
constexpr std::string_view kEnd = ".dist-info";

/// For dl_iterate_phdr: the path of libnixl.so, and then no further.
int find_library(dl_phdr_info* info, std::size_t /*bytes*/, void* found) {
  const std::filesystem::path path = info->dlpi_name;
  if (path.filename() != "libnixl.so") return 0;
  *static_cast<std::filesystem::path*>(found) = path;
  return 1;
}

}  // namespace

std::string loaded_release() {
  std::filesystem::path library;
  (void)::dl_iterate_phdr(find_library, &library);
  if (library.empty()) return {};
  // A wheel's libraries lie in a folder beside what names its release.
  const std::filesystem::path packages =
      std::filesystem::weakly_canonical(library).parent_path().parent_path();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(packages, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dash = name.find('-');
    if (name.starts_with(kBegin) && name.ends_with(kEnd) && dash != std::string::npos) {
      return name.substr(dash + 1, name.size() - kEnd.size() - dash - 1);
    }
  }
  return {};
}

}  // namespace nearkv::nixl

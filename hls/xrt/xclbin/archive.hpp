// The zip archive that XRT unpacks before it starts a simulator.
#ifndef NEARKV_HLS_XRT_XCLBIN_ARCHIVE_HPP_
#define NEARKV_HLS_XRT_XCLBIN_ARCHIVE_HPP_

#include <string>
#include <vector>

namespace nearkv::hw_emu {

struct ArchivedFile {
  std::string path;  ///< In the archive.
  std::string bytes;
};

/// All files, each of them executable. Throws std::runtime_error if that cannot be done.
std::string make_archive(const std::vector<ArchivedFile>& files);

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_XCLBIN_ARCHIVE_HPP_

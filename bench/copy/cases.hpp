// What the bench measures, one function per source.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rounds.hpp"

namespace nearkv::bench {

struct Options {
  std::size_t working_set_bytes = std::size_t{512} << 20;  ///< Of sources, and of targets.
  std::vector<std::size_t> object_bytes;
  std::vector<unsigned> threads;
  std::string directory;  ///< Where the file of blocks is made.
  std::size_t file_bytes = std::size_t{256} << 20;
};

/// Copies into and out of a pool beside memcpy.
void compare_copies(const Options& options, Report* report);

/// Batches of reads and of writes on a file of blocks, beside one sequential stream of 1 MiB calls.
void compare_files(const Options& options, Report* report);

/// Sealing, opening and wiping beside plain copies.
void compare_seals(const Options& options, Report* report);

}  // namespace nearkv::bench

// What lies behind an address of this process.
#pragma once

#include <cstddef>

namespace nearkv::cuda {

/// Whether a device's own memory is mapped there, a card's window say, and not pages of the host's.
/// Linux marks such mappings in /proc/self/smaps.
[[nodiscard]] bool is_device_memory(const void* place);

/// Reads a byte of every page, so that each has its entry in the page table: a driver that looks
/// these up brings none in.
void touch_pages(const void* memory, std::size_t bytes);

}  // namespace nearkv::cuda

// A card whose PCI function goes and comes back; the hot-unplug of a card ends in the same place.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "card_file.hpp"

namespace nearkv::test {

class RemovableCard {
 public:
  void remove() const { write(function_ / "remove"); }

  /// With its memory.
  void bring_back() const {
    write("/sys/bus/pci/rescan");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_card() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(set_card_attribute("memory", memory_));
  }

 private:
  static void write(const std::filesystem::path& path) { std::ofstream(path) << "1" << std::flush; }

  std::string memory_ = card_attribute("memory");
  std::filesystem::path function_ = std::filesystem::canonical("/sys/class/misc/nearkv0/device");
};

}  // namespace nearkv::test

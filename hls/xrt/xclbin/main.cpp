// nearkv-xclbin: what an XRT application needs to run on an emulated card, into a folder.
#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "xrt/xclbin/description.hpp"
#include "xrt/xclbin/xclbin.hpp"

namespace {

using nearkv::hw_emu::Description;

constexpr const char* kFooter =
    "FILES\n"
    "  NAME.xclbin    with the simulator in it\n"
    "  emconfig.json  the card that XRT finds\n"
    "  xrt.ini        settings without which XRT 2.13 overruns a buffer, and copies for ever\n"
    "  env.sh         to be sourced by the shell that runs the application\n\n"
    "EXIT STATUS\n"
    "  0  written; 1  it cannot be; 2  wrong usage\n";

// XRT copies buffers in packets of this size, and its first message must be larger than any other.
constexpr unsigned kPacketBytes = 64 << 10;
constexpr unsigned kRoomBytes = kPacketBytes + (8 << 10);

struct Options {
  std::filesystem::path description;
  std::filesystem::path simulator;
  std::filesystem::path script;
  std::filesystem::path xrt_libraries;
  std::filesystem::path output;
  std::string name;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::string make_emconfig(const Description& description) {
  const nlohmann::json device{{"Name", description.platform},
                              {"HwBoard", description.platform},
                              {"FpgaDevice", "none"},
                              {"DdrSize", "16"},
                              {"NumDdrBanks", "1"},
                              {"RomVersion", "0"},
                              {"FeatureRom", nlohmann::json::object()}};
  const nlohmann::json board{{"Devices", nlohmann::json::array({device})}};
  return nlohmann::json{{"Version", "2.0"},
                        {"Platform", {{"Boards", nlohmann::json::array({board})}}}}
             .dump(1) +
         "\n";
}

std::string make_ini() {
  return "; The setting `room` makes XRT's first message larger than packet_size; XRT 2.13\n"
         "; overruns its buffer otherwise. With sws=true, its default, bo::copy() never ends; "
         "without\n"
         "; it the host copies. Copy all three into an xrt.ini of your own.\n"
         "[Runtime]\nsws=false\n"
         "[Emulation]\nkeep_run_dir=false\npacket_size=" +
         std::to_string(kPacketBytes) + "\n[Debug]\nroom=" + std::string(kRoomBytes, 'x') + "\n";
}

std::string make_environment() {
  return "# Source this, then run the application.\n"
         "nearkv_here=$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]:-$0}\")\" && pwd)\n"
         "export XILINX_XRT=$nearkv_here/xrt XILINX_VITIS=$nearkv_here XILINX_VIVADO=$nearkv_here\n"
         "export XCL_EMULATION_MODE=hw_emu EMCONFIG_PATH=$nearkv_here\n"
         "export XRT_INI_PATH=$nearkv_here/xrt.ini USER=${USER:-$(id -un)}\n"
         "unset nearkv_here\n";
}

void write_package(const Options& options) {
  const std::string json = read_file(options.description);
  const Description description = Description::parse(json);
  const std::string folder(nearkv::hw_emu::kSimulatorFolder);
  const std::string xclbin = nearkv::hw_emu::make_xclbin(
      description, {{folder + "simulate.sh", read_file(options.script)},
                    {folder + "simulator", read_file(options.simulator)},
                    {folder + "description.json", json}});
  std::filesystem::create_directories(options.output / "xrt");
  write_file(options.output / (options.name + ".xclbin"), xclbin);
  write_file(options.output / "emconfig.json", make_emconfig(description));
  write_file(options.output / "xrt.ini", make_ini());
  write_file(options.output / "env.sh", make_environment());
  const std::filesystem::path link = options.output / "xrt" / "lib";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(options.xrt_libraries, link);
}

int run(int count, char** arguments) {
  CLI::App app("Writes what an XRT application needs to run on an emulated card, into a folder.",
               "nearkv-xclbin");
  Options options;
  app.add_option("--description", options.description, "JSON: banks, kernels, arguments")
      ->required();
  app.add_option("--simulator", options.simulator, "executable with these kernels")->required();
  app.add_option("--script", options.script, "simulate.sh")->required();
  app.add_option("--xrt-libraries", options.xrt_libraries, "folder of libxrt_hwemu.so")->required();
  app.add_option("--name", options.name, "of the xclbin")->required();
  app.add_option("--output", options.output, "folder")->required();
  app.footer(kFooter);
  CLI11_PARSE(app, count, arguments);
  write_package(options);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "nearkv-xclbin: " << error.what() << '\n';
    return 1;
  }
}

// nearkv-function: the process behind the card's PCI function in QEMU.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "function/bridge.hpp"
#include "function/function.hpp"
#include "function/ivshmem.hpp"
#ifdef NEARKV_FIRMWARE_ROM
#include "management/management.hpp"
#endif

namespace {

using nearkv::emulator::Bridge;
using nearkv::emulator::Function;
using nearkv::emulator::IvshmemServer;
using nearkv::emulator::ManagementRegisters;
using namespace std::chrono_literals;

constexpr const char* kFooter =
    "DESCRIPTION\n"
    "  The engine of an emulated card. QEMU connects to the socket as the device\n"
    "    -chardev socket,id=card,path=PATH -device ivshmem-doorbell,chardev=card,vectors=19\n"
    "  whose driver is ours; rings, doorbells and pages lie in the memory of a CXL device, whose\n"
    "  file the engine has too.\n\n"
    "EXAMPLES\n"
    "  nearkv-function --device model:?file=/dev/shm/cxl0 --socket /tmp/card --serial 1\n"
    "  nearkv-function --device 'rtl:?file=/dev/shm/cxl0&latency=60' --socket /tmp/card\n\n"
    "EXIT STATUS\n"
    "  0  stopped by TERM or INT; 1  the device or the socket cannot be had; 2  wrong usage\n";

struct Options {
  std::string device;
  std::string socket;
  std::uint64_t serial = 0;
  std::string firmware;
  std::string flash;
  std::uint64_t dynamic_bytes = 0;
};

#ifdef NEARKV_FIRMWARE_ROM
std::unique_ptr<ManagementRegisters> manage(const Options& options, std::span<std::byte> memory) {
  const auto rom = nearkv::emulator::read_image(options.firmware);
  if (rom.empty()) throw std::runtime_error(options.firmware + ": no ROM of the firmware");
  if (options.dynamic_bytes > memory.size()) {
    throw std::runtime_error("--dynamic-bytes: the device has " + std::to_string(memory.size()));
  }
  std::unique_ptr<nearkv::emulator::Flash> flash;
  if (!options.flash.empty()) {
    std::string reason;
    flash = nearkv::emulator::Flash::open(options.flash, &reason);
    if (flash == nullptr) throw std::runtime_error(reason);
  }
  return std::make_unique<nearkv::emulator::Management>(rom, options.serial, memory,
                                                        options.dynamic_bytes, std::move(flash));
}
#else
/// Without a processor there is no firmware.
std::unique_ptr<ManagementRegisters> manage(const Options&, std::span<std::byte>) {
  return nullptr;
}
#endif

volatile std::sig_atomic_t is_stopped = 0;

void stop(int) { is_stopped = 1; }

/// Until TERM or INT. Looks without pause while there is work, and now and then otherwise: stores
/// to doorbells wake nobody.
void run(IvshmemServer& server, Bridge& bridge, Function& function,
         ManagementRegisters* management) {
  constexpr auto kAlert = 5ms;
  constexpr auto kNap = 500us;
  auto last = std::chrono::steady_clock::now();
  while (is_stopped == 0) {
    bool was_asked = bridge.serve();
    if (management != nullptr) was_asked |= management->serve(&function);
    const bool has_run = function.run(200us);
    const auto now = std::chrono::steady_clock::now();
    if (was_asked || has_run) {
      last = now;
      continue;
    }
    bridge.beat();
    server.serve(now - last < kAlert ? 0ns : std::chrono::nanoseconds(kNap));
  }
}

int serve(const Options& options) {
  std::string reason;
  std::unique_ptr<nearkv::Device> device;
  if (nearkv::open_device(options.device, &device, &reason) != nearkv::Status::kOk) {
    std::cerr << "nearkv-function: " << reason << '\n';
    return EXIT_FAILURE;
  }
  const auto server =
      IvshmemServer::listen(options.socket, NKV_CARD_SHARED_BYTES, NKV_CARD_VECTORS, &reason);
  if (server == nullptr) {
    std::cerr << "nearkv-function: " << reason << '\n';
    return EXIT_FAILURE;
  }
  const std::unique_ptr<ManagementRegisters> management = manage(options, device->memory());
  Function function(
      device.get(), [&server](unsigned vector) { server->interrupt(vector); }, management.get());
  Bridge bridge(server->shared(), &function, options.serial);
  std::signal(SIGTERM, stop);
  std::signal(SIGINT, stop);
  std::cout << "ready\n" << std::flush;
  run(*server, bridge, function, management.get());
  return EXIT_SUCCESS;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("NearKV: the engine behind an emulated card's function.", "nearkv-function");
  app.footer(kFooter);
  Options options;
  app.add_option("--device", options.device, "The engine: model:?file=PATH, rtl:?file=PATH")
      ->required();
  app.add_option("--socket", options.socket, "Where QEMU connects")->required();
  app.add_option("--serial", options.serial, "Of the CXL device whose memory the file is");
#ifdef NEARKV_FIRMWARE_ROM
  options.firmware = NEARKV_FIRMWARE_ROM;
  app.add_option("--firmware", options.firmware, "ROM of the card's processor: loader, firmware")
      ->capture_default_str();
  app.add_option("--flash", options.flash,
                 "File of the card's flash memory, with newer firmware; made if there is none");
  app.add_option("--dynamic-bytes", options.dynamic_bytes,
                 "Of the memory, at its end: dynamic capacity, which the firmware lends")
      ->capture_default_str();
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : 2;
  }
  return serve(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "nearkv-function: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

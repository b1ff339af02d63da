// The Verilated engine as a device that is loaded by URI: rtl:?memory=64MiB&latency=60&jitter=16.
// file=PATH: its memory is this file, which others may have mapped too.
// slices=2: so many slices of memory, each with an engine: 1, 2 or 4.
// top=afu_top: the wrapper for the Agilex example design, with nkv_top inside; slices=2, and memory
// of one size.
// dram=NAME: memory is DRAM of this kind, and latency what a read of a closed bank takes.
// trace=PATH: accesses by cycle (see AccessTrace).
// stall=PERCENT: each channel of memory, and of the host's answers, stands for so many cycles of
// 100. host=PERCENT: the host reads in so many cycles of 100, beside the engine (see HostTraffic).
// Faults can be asked for: poison=ADDRESS of a burst in device memory; drop_read=N, drop_write=N:
// the N-th read or write of slice 0 gets no answer, drop_writes=COUNT: nor do the next writes, so
// many in all; refuse_write=N: the N-th write of it fails.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/dram/dram.hpp"
#include "support/device_plugin.hpp"
#include "verilated/card.hpp"
#include "verilated/machines.hpp"

namespace {

using nearkv::dram::Dram;
using nearkv::dram::Timing;
using nearkv::emulator::HostLoad;
using nearkv::emulator::MemoryFaults;
using nearkv::emulator::MemoryTiming;
using nearkv::emulator::VerilatedCard;

struct Options {
  nearkv::emulator::MemoryOptions memory;
  nearkv::emulator::MachineKind machine;
  MemoryTiming timing;
  const Timing* dram = nullptr;
  MemoryFaults faults;
  HostLoad host;
  std::string trace;
};

template <typename Number>
bool parse_number(std::string_view text, Number* number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && rest == text.data() + text.size();
}

bool parse_option(std::string_view option, Options* options) {
  if (const auto taken = options->memory.take(option)) return *taken;
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = option.substr(equals + 1);
  if (name == "slices") return parse_number(value, &options->machine.slices);
  if (name == "top") {
    options->machine.top = value;
    return true;
  }
  if (name == "latency") return parse_number(value, &options->timing.latency_cycles);
  if (name == "jitter") return parse_number(value, &options->timing.jitter_cycles);
  if (name == "stall") {
    return parse_number(value, &options->timing.stall_percent) &&
           options->timing.stall_percent < 100;
  }
  if (name == "seed") return parse_number(value, &options->timing.seed);
  if (name == "dram") {
    options->dram = nearkv::dram::find_timing(value);
    return options->dram != nullptr;
  }
  if (name == "host") return parse_number(value, &options->host.read_percent);
  if (name == "drop_read") return parse_number(value, &options->faults.drop_read);
  if (name == "drop_write") return parse_number(value, &options->faults.drop_write);
  if (name == "drop_writes") return parse_number(value, &options->faults.drop_writes);
  if (name == "refuse_write") return parse_number(value, &options->faults.refuse_write);
  if (name == "trace") {
    options->trace = value;
    return !value.empty();
  }
  if (name == "poison") {
    std::uint64_t address = 0;
    const bool is_number = parse_number(value, &address);
    options->faults.poisoned.insert(address);
    return is_number;
  }
  return false;
}

/// DRAM has its own latency at the least, and answers when it has to.
bool is_possible(const Options& options) {
  return options.dram == nullptr ||
         (options.timing.jitter_cycles == 0 && options.timing.stall_percent == 0 &&
          options.timing.latency_cycles >= Dram::least_latency(*options.dram));
}

std::string dram_names() {
  std::string names;
  for (const Timing& timing : nearkv::dram::timings()) {
    if (!names.empty()) names += '|';
    names += timing.name;
  }
  return names;
}

std::optional<Options> parse_arguments(std::string_view arguments) {
  Options options;
  const auto take = [&options](std::string_view option) { return parse_option(option, &options); };
  if (!nearkv::emulator::take_options(arguments, take)) return std::nullopt;
  return options;
}

void* open(const char* arguments, char* error, size_t error_bytes) {
  auto options = parse_arguments(arguments);
  if (!options) {
    std::snprintf(
        error, error_bytes,
        "rtl: takes not \"%s\" but, joined by &, ?memory=SIZE (multiple of 4KiB like 64MiB) or "
        "file=PATH, slices=1|2|4, top=nkv_top|afu_top, dram=%s, latency=, jitter=CYCLES, seed=N, "
        "stall=, host=PERCENT, "
        "trace=FILE, poison=ADDRESS, drop_read=, drop_write=, refuse_write=N, drop_writes=COUNT",
        arguments, dram_names().c_str());
    return nullptr;
  }
  if (!is_possible(*options)) {
    std::snprintf(error, error_bytes,
                  "rtl: dram=%s takes no jitter= or stall=, and a latency= of %u cycles or more",
                  std::string(options->dram->name).c_str(), Dram::least_latency(*options->dram));
    return nullptr;
  }
  auto memory = nearkv::emulator::make_memory("rtl", options->memory, {error, error_bytes});
  if (memory == nullptr) return nullptr;
  const std::size_t memory_bytes = memory->bytes().size();
  const std::string lacks = nearkv::emulator::machine_lacks(options->machine, memory_bytes);
  if (!lacks.empty()) {
    std::snprintf(error, error_bytes, "rtl: %s", lacks.c_str());
    return nullptr;
  }
  auto card = std::make_unique<VerilatedCard>(
      std::move(memory), nearkv::emulator::make_machine(options->machine, memory_bytes),
      options->timing, options->dram);
  card->set_faults(options->faults);
  if (options->host.read_percent != 0) {
    options->host.seed = options->timing.seed;
    card->add_host_traffic(options->host);
  }
  if (!options->trace.empty() && !card->trace(options->trace)) {
    std::snprintf(error, error_bytes, "rtl: cannot write %s", options->trace.c_str());
    return nullptr;
  }
  return card.release();
}

constexpr nkv_device_plugin kPlugin = nearkv::emulator::plugin_of<VerilatedCard>(open);

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}

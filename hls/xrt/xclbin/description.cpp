#include "xrt/xclbin/description.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace nearkv::hw_emu {

static void from_json(const nlohmann::json& json, Bank& bank) {
  json.at("tag").get_to(bank.tag);
  json.at("base").get_to(bank.base);
  json.at("bytes").get_to(bank.bytes);
}

static void from_json(const nlohmann::json& json, Argument& argument) {
  json.at("name").get_to(argument.name);
  json.at("type").get_to(argument.type);
  json.at("offset").get_to(argument.offset);
  json.at("bytes").get_to(argument.bytes);
  argument.port = json.value("port", "");
  argument.banks = json.value("banks", std::vector<std::string>());
}

static void from_json(const nlohmann::json& json, ComputeUnit& unit) {
  json.at("name").get_to(unit.name);
  json.at("base").get_to(unit.base);
}

static void from_json(const nlohmann::json& json, Kernel& kernel) {
  json.at("name").get_to(kernel.name);
  json.at("protocol").get_to(kernel.protocol);
  json.at("control").get_to(kernel.control);
  json.at("clock").get_to(kernel.clock);
  kernel.reset = json.value("reset", "");
  kernel.interrupt = json.value("interrupt", "");
  json.at("register_bytes").get_to(kernel.register_bytes);
  json.at("masters").get_to(kernel.masters);
  json.at("arguments").get_to(kernel.arguments);
  json.at("compute_units").get_to(kernel.compute_units);
}

namespace {

// What the structures of an xclbin have room for, a final zero included.
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kNameBytes = 64;

void require(bool holds, const std::string& text) {
  if (!holds) throw std::runtime_error(text);
}

void check_banks(const Description& description) {
  require(!description.banks.empty(), "there is no bank of memory");
  std::vector<Bank> banks = description.banks;
  std::ranges::sort(banks, {}, &Bank::base);
  for (std::size_t i = 0; i < banks.size(); ++i) {
    const Bank& bank = banks[i];
    require(!bank.tag.empty() && bank.tag.size() < kTagBytes,
            "bank '" + bank.tag + "': a tag has 1 to 15 characters");
    require(bank.bytes > 0 && bank.bytes % 4096 == 0 && bank.base % 4096 == 0,
            "bank " + bank.tag + ": base and size are whole pages of 4 KiB");
    require(i == 0 || banks[i - 1].bytes <= bank.base - banks[i - 1].base,
            "banks " + banks[i == 0 ? 0 : i - 1].tag + " and " + bank.tag + " overlap");
  }
}

void check_kernel(const Description& description, const Kernel& kernel) {
  const std::set<std::string> protocols{"ap_ctrl_hs", "ap_ctrl_chain", "ap_ctrl_none"};
  require(protocols.contains(kernel.protocol),
          kernel.name + ": no control protocol '" + kernel.protocol + "'");
  require(!kernel.compute_units.empty(), kernel.name + ": it has no compute unit");
  for (const ComputeUnit& unit : kernel.compute_units) {
    require(kernel.name.size() + unit.name.size() + 1 < kNameBytes,
            unit.name + ": its name and its kernel's are longer than 62 characters together");
  }
  for (const Argument& argument : kernel.arguments) {
    require(argument.bytes > 0 && argument.offset + argument.bytes <= kernel.register_bytes,
            kernel.name + ": argument " + argument.name + " lies outside the control registers");
    if (!argument.is_buffer()) continue;
    require(
        std::ranges::find(kernel.masters, argument.port) != kernel.masters.end(),
        kernel.name + ": argument " + argument.name + " names no AXI4 master: " + argument.port);
    require(argument.banks.size() == kernel.compute_units.size(),
            kernel.name + ": argument " + argument.name + " needs a bank for each compute unit");
    for (const std::string& tag : argument.banks) {
      require(std::ranges::find(description.banks, tag, &Bank::tag) != description.banks.end(),
              kernel.name + ": argument " + argument.name + " is in no bank of memory: " + tag);
    }
  }
}

}  // namespace

Description Description::parse(std::string_view text) {
  Description description;
  try {
    const auto json = nlohmann::json::parse(text);
    json.at("platform").get_to(description.platform);
    json.at("memory_latency_cycles").get_to(description.memory_latency_cycles);
    json.at("banks").get_to(description.banks);
    json.at("kernels").get_to(description.kernels);
    description.keys = json.value("keys", std::map<std::string, std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("not a description of a card: ") + error.what());
  }
  check_banks(description);
  require(!description.kernels.empty(), "there is no kernel");
  for (const Kernel& kernel : description.kernels) check_kernel(description, kernel);
  return description;
}

}  // namespace nearkv::hw_emu

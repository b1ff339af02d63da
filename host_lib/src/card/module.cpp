#include "card/module.hpp"

#include <cxl/libcxl.h>
#include <daxctl/libdaxctl.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

namespace nearkv {
namespace {

struct FreeCxl {
  void operator()(cxl_ctx* context) const { cxl_unref(context); }
};
struct FreeDax {
  void operator()(daxctl_ctx* context) const { daxctl_unref(context); }
};
struct FreeCommand {
  void operator()(cxl_cmd* command) const { cxl_cmd_unref(command); }
};
using CxlContext = std::unique_ptr<cxl_ctx, FreeCxl>;
using DaxContext = std::unique_ptr<daxctl_ctx, FreeDax>;
using Command = std::unique_ptr<cxl_cmd, FreeCommand>;

CxlContext open_cxl() {
  cxl_ctx* context = nullptr;
  return CxlContext(cxl_new(&context) == 0 ? context : nullptr);
}

/// Of several of a number, one that is a PCI function: mock devices number themselves.
cxl_memdev* find_memdev(cxl_ctx* context, std::uint64_t serial) {
  cxl_memdev* found = nullptr;
  cxl_memdev* memdev = nullptr;
  cxl_memdev_foreach(context, memdev) {
    if (cxl_memdev_get_serial(memdev) != serial) continue;
    const auto function =
        std::filesystem::path("/sys/bus/pci/devices") / cxl_memdev_get_host(memdev);
    if (std::filesystem::exists(function)) return memdev;
    found = memdev;
  }
  return found;
}

/// Whether regions can be made of it: its driver has found the decoders of its endpoint.
bool is_active(cxl_memdev* memdev) {
  cxl_endpoint* const endpoint = cxl_memdev_get_endpoint(memdev);
  return endpoint != nullptr && cxl_endpoint_is_enabled(endpoint) != 0 &&
         cxl_decoder_get_first(cxl_endpoint_get_port(endpoint)) != nullptr;
}

/// Calls take(root decoder) for each until it says that it has found what it sought.
template <typename Take>
void for_root_decoders(cxl_ctx* context, Take take) {
  cxl_bus* bus = nullptr;
  cxl_bus_foreach(context, bus) {
    cxl_decoder* decoder = nullptr;
    cxl_decoder_foreach(cxl_bus_get_port(bus), decoder) {
      if (take(decoder)) return;
    }
  }
}

bool is_over(cxl_region* region, cxl_memdev* memdev) {
  cxl_memdev_mapping* mapping = nullptr;
  cxl_mapping_foreach(region, mapping) {
    cxl_decoder* const decoder = cxl_mapping_get_decoder(mapping);
    if (decoder != nullptr && cxl_decoder_get_memdev(decoder) == memdev) return true;
  }
  return false;
}

std::optional<CardRegion> find_region(cxl_ctx* context, cxl_memdev* memdev) {
  std::optional<CardRegion> found;
  for_root_decoders(context, [&](cxl_decoder* decoder) {
    cxl_region* region = nullptr;
    cxl_region_foreach(decoder, region) {
      if (!is_over(region, memdev) || cxl_region_decode_is_committed(region) == 0) continue;
      found = {.name = cxl_region_get_devname(region),
               .at = cxl_region_get_resource(region),
               .bytes = cxl_region_get_size(region),
               .ways = cxl_region_get_interleave_ways(region)};
      return true;
    }
    return false;
  });
  return found;
}

}  // namespace

std::optional<CardModule> find_module(std::uint64_t serial) {
  const CxlContext context = open_cxl();
  if (context == nullptr) return std::nullopt;
  cxl_memdev* const memdev = find_memdev(context.get(), serial);
  if (memdev == nullptr) return std::nullopt;
  const char* const firmware = cxl_memdev_get_firmware_version(memdev);
  const std::string name = cxl_memdev_get_devname(memdev);
  const std::optional<CardRegion> region = find_region(context.get(), memdev);
  return CardModule{.name = name,
                    .serial = serial,
                    .ram_bytes = cxl_memdev_get_ram_size(memdev),
                    .pmem_bytes = cxl_memdev_get_pmem_size(memdev),
                    .numa_node = cxl_memdev_get_numa_node(memdev),
                    .firmware = firmware != nullptr ? firmware : "",
                    .region = region,
                    .locality = read_locality(name, region ? region->name : "")};
}

std::string volatile_decoder(std::uint64_t serial) {
  const CxlContext context = open_cxl();
  cxl_memdev* const memdev = context != nullptr ? find_memdev(context.get(), serial) : nullptr;
  std::string name;
  if (memdev == nullptr) return name;
  for_root_decoders(context.get(), [&](cxl_decoder* decoder) {
    if (cxl_decoder_is_volatile_capable(decoder) &&
        cxl_decoder_get_target_by_memdev(decoder, memdev) != nullptr) {
      name = cxl_decoder_get_devname(decoder);
    }
    return !name.empty();
  });
  return name;
}

Status await_module(std::uint64_t serial, std::string* reason) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience(10);
  constexpr std::chrono::milliseconds kInterval(50);
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (;;) {
    // A context keeps what it once found.
    const CxlContext context = open_cxl();
    cxl_memdev* const memdev = context != nullptr ? find_memdev(context.get(), serial) : nullptr;
    if (memdev != nullptr && is_active(memdev)) return Status::kOk;
    if (Clock::now() >= deadline) {
      const std::string name = memdev != nullptr ? cxl_memdev_get_devname(memdev) : "the module";
      *reason = name + " is not at work, and was not within " + std::to_string(kPatience.count()) +
                " s; `dmesg` says why, `cxl enable-memdev` may bring it back";
      return Status::kTimeout;
    }
    std::this_thread::sleep_for(kInterval);
  }
}

Status release_dax(const CardRegion& region, std::string* reason) {
  daxctl_ctx* opened = nullptr;
  if (daxctl_new(&opened) != 0) return Status::kOk;
  const DaxContext context(opened);
  daxctl_region* dax_region = nullptr;
  daxctl_region_foreach(context.get(), dax_region) {
    daxctl_dev* device = nullptr;
    daxctl_dev_foreach(dax_region, device) {
      if (daxctl_dev_get_resource(device) != region.at || daxctl_dev_is_enabled(device) == 0) {
        continue;
      }
      if (daxctl_dev_get_memory(device) != nullptr) {
        *reason = region.name +
                  " is system RAM; `daxctl reconfigure-device --mode=devdax --force " +
                  daxctl_dev_get_devname(device) + "` frees it, if nobody uses it";
        return Status::kBusy;
      }
      if (daxctl_dev_disable(device) != 0) {
        *reason = std::string("cannot take ") + daxctl_dev_get_devname(device) +
                  " from its driver; are you root?";
        return Status::kDenied;
      }
    }
  }
  return Status::kOk;
}

Status query_health(std::uint64_t serial, ModuleHealth* health, std::string* reason) {
  const CxlContext context = open_cxl();
  cxl_memdev* const memdev = context != nullptr ? find_memdev(context.get(), serial) : nullptr;
  if (memdev == nullptr) {
    *reason = "no CXL module has the card's serial number";
    return Status::kNotFound;
  }
  const Command command(cxl_cmd_new_get_health_info(memdev));
  if (command == nullptr || cxl_cmd_submit(command.get()) != 0 ||
      cxl_cmd_get_mbox_status(command.get()) != 0) {
    *reason = std::string(cxl_memdev_get_devname(memdev)) + " does not tell its health";
    return Status::kUnsupported;
  }
  cxl_cmd* const told = command.get();
  const int life_used = cxl_cmd_health_info_get_life_used(told);
  *health = {.maintenance_needed = cxl_cmd_health_info_get_maintenance_needed(told) > 0,
             .performance_degraded = cxl_cmd_health_info_get_performance_degraded(told) > 0,
             .replacement_needed = cxl_cmd_health_info_get_hw_replacement_needed(told) > 0,
             .media_ready = cxl_cmd_health_info_get_media_normal(told) > 0,
             .life_critical = cxl_cmd_health_info_get_ext_life_used_critical(told) > 0,
             .temperature_critical = cxl_cmd_health_info_get_ext_temperature_critical(told) > 0,
             .life_used_percent = life_used < 0 ? std::nullopt : std::optional(life_used),
             .temperature_celsius = cxl_cmd_health_info_get_temperature(told),
             .corrected_errors =
                 static_cast<std::uint32_t>(cxl_cmd_health_info_get_volatile_errors(told))};
  return Status::kOk;
}

}  // namespace nearkv

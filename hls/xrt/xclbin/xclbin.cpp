#include "xrt/xclbin/xclbin.hpp"

#include <openssl/evp.h>
#include <xclbin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "xrt/xclbin/metadata.hpp"

namespace nearkv::hw_emu {

namespace {

constexpr std::size_t kAlignment = 8;

struct Section {
  axlf_section_kind kind;
  const char* name;
  std::string bytes;
};

template <typename Plain>
void append(std::string* bytes, const Plain& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// A count, padded to where the structure has its first entry, and the entries.
template <typename Entry>
std::string make_table(const std::vector<Entry>& entries, std::size_t first_entry) {
  std::string bytes(first_entry, '\0');
  const auto count = static_cast<std::int32_t>(entries.size());
  std::memcpy(bytes.data(), &count, sizeof(count));
  for (const Entry& entry : entries) append(&bytes, entry);
  return bytes;
}

std::string make_memory_topology(const Description& description) {
  std::vector<mem_data> entries;
  for (const Bank& bank : description.banks) {
    mem_data entry{};
    entry.m_type = MEM_DRAM;
    if (bank.tag.starts_with("DDR")) entry.m_type = MEM_DDR4;
    if (bank.tag.starts_with("HBM")) entry.m_type = MEM_HBM;
    entry.m_used = 1;
    entry.m_size = bank.bytes >> 10;
    entry.m_base_address = bank.base;
    std::memcpy(entry.m_tag, bank.tag.data(), std::min(bank.tag.size(), sizeof(entry.m_tag) - 1));
    entries.push_back(entry);
  }
  return make_table(entries, offsetof(mem_topology, m_mem_data));
}

/// A compute unit, in the order of IP_LAYOUT.
struct Placed {
  const Kernel* kernel;
  std::size_t number;  ///< Of the kernel's units.

  [[nodiscard]] const ComputeUnit& unit() const { return kernel->compute_units[number]; }
};

std::vector<Placed> place_units(const Description& description) {
  std::vector<Placed> placed;
  for (const Kernel& kernel : description.kernels) {
    for (std::size_t i = 0; i < kernel.compute_units.size(); ++i) placed.push_back({&kernel, i});
  }
  std::ranges::sort(placed, {}, [](const Placed& unit) { return unit.unit().base; });
  return placed;
}

std::string make_ip_layout(const std::vector<Placed>& units) {
  std::vector<ip_data> entries;
  for (const Placed& placed : units) {
    ip_data entry{};
    entry.m_type = IP_KERNEL;
    std::uint32_t control = AP_CTRL_HS;
    if (placed.kernel->protocol == "ap_ctrl_chain") control = AP_CTRL_CHAIN;
    if (placed.kernel->protocol == "ap_ctrl_none") control = AP_CTRL_NONE;
    entry.properties = control << IP_CONTROL_SHIFT;
    entry.m_base_address = placed.unit().base;
    const std::string name = placed.kernel->name + ":" + placed.unit().name;
    std::memcpy(entry.m_name, name.data(), std::min(name.size(), sizeof(entry.m_name) - 1));
    entries.push_back(entry);
  }
  return make_table(entries, offsetof(ip_layout, m_ip_data));
}

std::string make_connectivity(const Description& description, const std::vector<Placed>& units) {
  std::vector<connection> entries;
  for (std::size_t ip = 0; ip < units.size(); ++ip) {
    const Kernel& kernel = *units[ip].kernel;
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Argument& argument = kernel.arguments[i];
      if (!argument.is_buffer()) continue;
      const auto bank =
          std::ranges::find(description.banks, argument.banks[units[ip].number], &Bank::tag);
      entries.push_back(
          {.arg_index = static_cast<std::int32_t>(i),
           .m_ip_layout_index = static_cast<std::int32_t>(ip),
           .mem_data_index = static_cast<std::int32_t>(bank - description.banks.begin())});
    }
  }
  return make_table(entries, offsetof(connectivity, m_connection));
}

std::string make_keys(const Description& description) {
  auto pairs = nlohmann::json::array();
  for (const auto& [key, value] : description.keys) {
    pairs.push_back({{"key", key}, {"value", value}});
  }
  return nlohmann::json{{"keyvalue_metadata", {{"key_values", pairs}}}}.dump();
}

/// The first bytes of a hash, marked as a UUID of one's own making.
void set_uuid(unsigned char* uuid, const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  ::EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, ::EVP_sha256(), nullptr);
  hash[6] = static_cast<unsigned char>((hash[6] & 0x0f) | 0x80);
  hash[8] = static_cast<unsigned char>((hash[8] & 0x3f) | 0x80);
  std::copy_n(hash.begin(), 16, uuid);
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::string make_xclbin(const Description& description, const std::vector<ArchivedFile>& files) {
  const std::vector<Placed> units = place_units(description);
  std::vector<Section> sections{
      {EMBEDDED_METADATA, "metadata", make_metadata(description)},
      {MEM_TOPOLOGY, "memory", make_memory_topology(description)},
      {CONNECTIVITY, "connectivity", make_connectivity(description, units)},
      {IP_LAYOUT, "ip", make_ip_layout(units)},
      {KEYVALUE_METADATA, "keys", make_keys(description)},
      {BITSTREAM, "simulator", make_archive(files)},
  };

  std::string headers;
  std::string data;
  const std::size_t first =
      round_up(offsetof(axlf, m_sections) + sections.size() * sizeof(axlf_section_header));
  for (const Section& section : sections) {
    axlf_section_header header{};
    header.m_sectionKind = static_cast<std::uint32_t>(section.kind);
    std::strncpy(header.m_sectionName, section.name, sizeof(header.m_sectionName) - 1);
    header.m_sectionOffset = first + data.size();
    header.m_sectionSize = section.bytes.size();
    append(&headers, header);
    data += section.bytes;
    data.resize(round_up(data.size()));
  }

  axlf top{};
  std::memcpy(top.m_magic, "xclbin2", sizeof("xclbin2"));
  top.m_signature_length = -1;
  std::ranges::fill(top.reserved, static_cast<unsigned char>(0xff));
  top.m_header.m_length = first + data.size();
  top.m_header.m_versionMajor = 2;
  top.m_header.m_versionMinor = 1;
  top.m_header.m_mode = XCLBIN_HW_EMU;
  top.m_header.m_numSections = static_cast<std::uint32_t>(sections.size());
  std::memcpy(top.m_header.m_platformVBNV, description.platform.data(),
              std::min(description.platform.size(), sizeof(top.m_header.m_platformVBNV) - 1));
  set_uuid(top.m_header.uuid, headers + data);
  std::copy_n(top.m_header.uuid, sizeof(top.m_header.rom_uuid), top.m_header.rom_uuid);

  std::string bytes(reinterpret_cast<const char*>(&top), offsetof(axlf, m_sections));
  bytes += headers;
  bytes.resize(first);
  return bytes + data;
}

}  // namespace nearkv::hw_emu

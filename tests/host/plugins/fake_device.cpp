// A device that is wrong in the one way that NEARKV_FAKE_DEVICE names: id, abi, version or refuses.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "nearkv/device_plugin.h"
#include "nkv_abi.h"

namespace {

char memory_bytes[4096];

bool is_wrong_in(std::string_view way) {
  const char* const chosen = std::getenv("NEARKV_FAKE_DEVICE");
  return chosen != nullptr && way == chosen;
}

void* open(const char*, char* error, size_t error_bytes) {
  if (!is_wrong_in("refuses")) return memory_bytes;
  std::snprintf(error, error_bytes, "no card in the slot");
  return nullptr;
}
void close(void*) {}
uint64_t read_csr(void*, uint32_t offset) {
  if (offset == NKV_REG_ID) return is_wrong_in("id") ? 0x1234 : NKV_ABI_ID;
  if (offset == NKV_REG_ABI) return is_wrong_in("abi") ? 99 : NKV_ABI_MAJOR;
  return 0;
}
void write_csr(void*, uint32_t, uint64_t) {}
void* memory(void*, size_t* bytes) {
  *bytes = sizeof(memory_bytes);
  return memory_bytes;
}
int wait(void*, int64_t) { return -ETIMEDOUT; }

constexpr nkv_device_plugin of_version(uint32_t version) {
  return {version, open, close, read_csr, write_csr, memory, wait};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const nkv_device_plugin* nkv_plugin_entry() {
  static constexpr nkv_device_plugin kRight = of_version(NKV_DEVICE_PLUGIN_VERSION);
  static constexpr nkv_device_plugin kWrong = of_version(77);
  return is_wrong_in("version") ? &kWrong : &kRight;
}

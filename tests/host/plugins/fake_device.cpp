// A device that is wrong in one way, chosen at compile time: FAKE_ID, FAKE_MAJOR, FAKE_VERSION,
// FAKE_REFUSES.
#include <cerrno>
#include <cstdio>

#include "nearkv/device_plugin.h"
#include "nkv_abi.h"

namespace {

char memory_bytes[4096];

void* open(const char*, char* error, size_t error_bytes) {
#ifdef FAKE_REFUSES
  std::snprintf(error, error_bytes, "no card in the slot");
  return nullptr;
#else
  std::snprintf(error, error_bytes, "%s", "");
  return memory_bytes;
#endif
}
void close(void*) {}
uint64_t read_csr(void*, uint32_t offset) {
  if (offset == NKV_REG_ID) return FAKE_ID;
  if (offset == NKV_REG_ABI) return FAKE_MAJOR;
  return 0;
}
void write_csr(void*, uint32_t, uint64_t) {}
void* memory(void*, size_t* bytes) {
  *bytes = sizeof(memory_bytes);
  return memory_bytes;
}
int wait(void*, int64_t) { return -ETIMEDOUT; }

constexpr nkv_device_plugin kPlugin{FAKE_VERSION, open, close, read_csr, write_csr, memory, wait};

}  // namespace

extern "C" __attribute__((visibility("default"))) const nkv_device_plugin* nkv_plugin_entry() {
  return &kPlugin;
}

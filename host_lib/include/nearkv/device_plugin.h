/* The C table by which a device lives in a shared object of its own: simulators and vendor runtimes
 * are loaded by URI scheme (`model:` is libnearkv_model.so) and never linked into the library.
 *
 * One table per object, returned by nkv_plugin_entry(). All calls on one device come from one
 * thread at a time, except that wait() may run while another thread reads or writes registers.
 */
#ifndef NEARKV_DEVICE_PLUGIN_H_
#define NEARKV_DEVICE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NKV_DEVICE_PLUGIN_VERSION 1u

struct nkv_device_plugin {
  uint32_t version; /* NKV_DEVICE_PLUGIN_VERSION */

  /* Opens a device. `arguments` is what follows the scheme in the URI ("?memory=64MiB"), never
   * null. Returns null on failure with a one-line reason in `error`. The caller closes the device.
   */
  void* (*open)(const char* arguments, char* error, size_t error_bytes);
  void (*close)(void* device);

  /* Registers of the contract (rtl/abi), 64-bit accesses at multiples of 8. */
  uint64_t (*read_csr)(void* device, uint32_t offset);
  void (*write_csr)(void* device, uint32_t offset, uint64_t value);

  /* Device memory as the host sees it; valid until close. */
  void* (*memory)(void* device, size_t* bytes);

  /* Sleeps until a completion may have been posted, at most timeout_ns; in simulation, runs the
   * clock. Returns 0, or -ETIMEDOUT when nothing happened. */
  int (*wait)(void* device, int64_t timeout_ns);
};

/* Exported by the shared object. */
const struct nkv_device_plugin* nkv_plugin_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* NEARKV_DEVICE_PLUGIN_H_ */

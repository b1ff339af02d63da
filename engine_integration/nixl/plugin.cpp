// What NIXL looks for in libplugin_NEARKV.so.
#include "backend/backend_plugin.h"
#include "engine.hpp"
#include "loaded_release.hpp"
#include "options.hpp"

static_assert(NIXL_PLUGIN_API_VERSION == 1, "this plug-in was written for NIXL's plug-in API 1");

extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin* nixl_plugin_init() {
  try {
    const std::string loaded = nearkv::nixl::loaded_release();
    if (!loaded.empty() && loaded != NEARKV_NIXL_VERSION) {
      NIXL_ERROR << "this plug-in was built for NIXL " NEARKV_NIXL_VERSION ", and this is NIXL "
                 << loaded << "; build it anew: python -m nearkv.nixl";
      return nullptr;
    }
    return nixlBackendPluginCreator<nearkv::nixl::Engine>::create(
        NIXL_PLUGIN_API_VERSION, "NEARKV", NEARKV_NIXL_VERSION, nearkv::nixl::default_parameters(),
        {DRAM_SEG, OBJ_SEG});
  } catch (...) {
    return nullptr;
  }
}

extern "C" NIXL_PLUGIN_EXPORT void nixl_plugin_fini() {}

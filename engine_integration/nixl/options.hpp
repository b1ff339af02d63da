// What a user may say when he creates the backend.
#pragma once

#include <memory>
#include <string>

#include "nearkv/object_store.hpp"
#include "nixl_types.h"

namespace nearkv::nixl {

/// A backend's parameters, read.
struct Options {
  std::string uri;     ///< A store of this process, made if its file is not there; or
  std::string socket;  ///< that of a daemon (nearkv serve).
  Namespace space;     ///< Who shares objects: tenant, model, dtype, layout, salt.
  unsigned workers = 2;
  bool overwrite = true;  ///< A write replaces what is there; else what is there counts as written.
};

/// Every parameter by its name, with its default.
[[nodiscard]] nixl_b_params_t default_parameters();

/// kBadArgument, and in `reason` what is wrong and what may be meant. An empty value is none.
[[nodiscard]] Status read_options(const nixl_b_params_t& parameters, Options* options,
                                  std::string* reason);

/// Opens the store that the options name. Statuses as ObjectStore's.
[[nodiscard]] Status open_store(const Options& options, std::unique_ptr<ObjectStore>* store,
                                std::string* reason);

}  // namespace nearkv::nixl

#include "status.hpp"

namespace nearkv::nixl {

nixl_status_t to_nixl(Status status) {
  switch (status) {
    case Status::kOk:
      return NIXL_SUCCESS;
    case Status::kNotFound:
      return NIXL_ERR_NOT_FOUND;
    case Status::kBadArgument:
    case Status::kBadUri:
      return NIXL_ERR_INVALID_PARAM;
    case Status::kDenied:
    case Status::kQuota:
    case Status::kBusy:
      return NIXL_ERR_NOT_ALLOWED;
    case Status::kCancelled:
      return NIXL_ERR_CANCELED;
    case Status::kUnsupported:
      return NIXL_ERR_NOT_SUPPORTED;
    default:
      return NIXL_ERR_BACKEND;
  }
}

}  // namespace nearkv::nixl

// etcd's v3 JSON gateway over HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nearkv/status.hpp"

namespace nearkv {

/// One key's state. Revisions are etcd's; 0: the key does not exist.
struct EtcdValue {
  std::string value{};
  std::int64_t mod_revision = 0;
};

/// A blocking client of one etcd cluster. Each call has a deadline; kIoError if none of the
/// endpoints answers. Where an answer is lost, another endpoint is asked for the same again, so
/// that a value that a key holds already counts as put: each writer's values are its own. Not
/// thread safe.
class EtcdClient {
 public:
  /// Endpoints as "http://host:port".
  explicit EtcdClient(std::vector<std::string> endpoints);
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;
  ~EtcdClient();

  /// Linearizable.
  [[nodiscard]] Status get(const std::string& key, EtcdValue* value);

  /// Puts `value` if `key` has not changed since `mod_revision` and if `absent`, unless empty, does
  /// not exist. kExists if not.
  [[nodiscard]] Status put_if(const std::string& key, std::int64_t mod_revision,
                              const std::string& value, const std::string& absent = {});

  /// Puts a key that lives as long as the lease; kExists if there is one.
  [[nodiscard]] Status put_leased(const std::string& key, const std::string& value,
                                  std::int64_t lease);

  [[nodiscard]] Status grant_lease(std::int64_t ttl_s, std::int64_t* lease);
  /// kNotFound once the lease has ended.
  [[nodiscard]] Status keep_alive(std::int64_t lease);
  [[nodiscard]] Status revoke(std::int64_t lease);

 private:
  struct Connection;

  [[nodiscard]] Status post(const std::string& path, const std::string& body, std::string* reply);
  /// Puts a value if all compares hold, with a lease or 0.
  [[nodiscard]] Status put(const std::string& key, const std::string& value, std::int64_t lease,
                           const nlohmann::json& compares);

  std::vector<std::string> endpoints_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace nearkv

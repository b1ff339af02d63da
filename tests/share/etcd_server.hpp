// A real etcd on a free port, in a temporary folder.
#pragma once

#include <string>

#include "share/etcd_membership.hpp"

namespace nearkv::test {

class EtcdServer {
 public:
  EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;
  ~EtcdServer();

  [[nodiscard]] static bool is_installed();

  void start();  ///< Returns once it answers; throws if it does not.
  void kill();

  [[nodiscard]] EtcdOptions options(std::uint16_t hosts) const;

 private:
  std::string folder_;
  int client_port_ = 0;
  int peer_port_ = 0;
  int process_ = 0;
};

}  // namespace nearkv::test

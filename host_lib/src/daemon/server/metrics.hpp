// A daemon's counters for Prometheus.
#pragma once

#include <prometheus/collectable.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/server/session.hpp"

namespace prometheus {
class Exposer;
}

namespace nearkv {

/// Reads the counters when it is asked, and keeps none of its own. Thread safety: all calls.
class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(const SessionContext& context) : context_(context) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  SessionContext context_;
};

/// Answers GET /metrics over HTTP while it lives.
class MetricsServer {
 public:
  /// kIoError with a reason if address and port cannot be had. Port 0: the kernel's choice.
  static Status start(const std::string& address, std::uint16_t port, const SessionContext& context,
                      std::unique_ptr<MetricsServer>* server, std::string* reason);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  ~MetricsServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  MetricsServer() = default;

  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
  std::uint16_t port_ = 0;
};

}  // namespace nearkv

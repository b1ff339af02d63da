#include "daemon/server/metrics.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "file_descriptor.hpp"

namespace nearkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const std::string& name, const std::string& help, MetricType type) {
  MetricFamily made;
  made.name = name;
  made.help = help;
  made.type = type;
  return made;
}

void add(MetricFamily* to, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (to->type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  to->metric.push_back(std::move(metric));
}

MetricFamily single(const std::string& name, const std::string& help, MetricType type,
                    std::uint64_t value) {
  MetricFamily made = family(name, help, type);
  add(&made, static_cast<double>(value));
  return made;
}

struct StoreMetric {
  const char* name;
  const char* help;
  MetricType type;
  std::uint64_t ObjectStoreStats::* counter;
};

using Stats = ObjectStoreStats;
constexpr StoreMetric kStoreMetrics[] = {
    {"nearkv_pool_size_bytes", "Bytes that objects and pages can use.", MetricType::Gauge,
     &Stats::total_bytes},
    {"nearkv_pool_used_bytes", "Bytes held by objects, rounding included.", MetricType::Gauge,
     &Stats::used_bytes},
    {"nearkv_objects", "Objects that can be found.", MetricType::Gauge, &Stats::objects},
    {"nearkv_object_bytes", "Bytes of all objects.", MetricType::Gauge, &Stats::object_bytes},
    {"nearkv_namespaces", "Namespaces.", MetricType::Gauge, &Stats::namespaces},
    {"nearkv_leases", "Leases that have not ended.", MetricType::Gauge, &Stats::leases},
    {"nearkv_sets_total", "Objects stored.", MetricType::Counter, &Stats::sets},
    {"nearkv_set_bytes_total", "Bytes of objects stored.", MetricType::Counter, &Stats::set_bytes},
    {"nearkv_hits_total", "Objects given out.", MetricType::Counter, &Stats::hits},
    {"nearkv_get_bytes_total", "Bytes of objects given out.", MetricType::Counter,
     &Stats::get_bytes},
    {"nearkv_misses_total", "Objects asked for that were not there.", MetricType::Counter,
     &Stats::misses},
    {"nearkv_evictions_total", "Objects evicted to make room.", MetricType::Counter,
     &Stats::evictions},
    {"nearkv_expirations_total", "Objects that went because of their age.", MetricType::Counter,
     &Stats::expirations},
    {"nearkv_corruptions_total", "Checksums that failed.", MetricType::Counter,
     &Stats::corruptions},
    {"nearkv_moved_total", "Objects moved by defragmentation.", MetricType::Counter, &Stats::moved},
    {"nearkv_quarantined_objects", "Objects whose memory reported poison and is not used again.",
     MetricType::Gauge, &Stats::quarantined},
    {"nearkv_recovered_objects", "Objects found when the daemon began.", MetricType::Gauge,
     &Stats::recovered},
    {"nearkv_torn_records", "Records dropped when the daemon began, unfinished or damaged.",
     MetricType::Gauge, &Stats::torn},
};

/// Of several tiers, each for itself: 0 is the fastest.
void add_store(const ObjectStore& store, std::vector<MetricFamily>* all) {
  const std::vector<ObjectStoreStats> tiers = store.tier_stats();
  for (const StoreMetric& metric : kStoreMetrics) {
    MetricFamily made = family(metric.name, metric.help, metric.type);
    for (std::size_t tier = 0; tier < tiers.size(); ++tier) {
      std::vector<ClientMetric::Label> labels;
      if (tiers.size() > 1) labels.push_back({"tier", std::to_string(tier)});
      add(&made, static_cast<double>(tiers[tier].*metric.counter), labels);
    }
    all->push_back(std::move(made));
  }
  const ObjectStoreStats stats = store.stats();
  all->push_back(single("nearkv_promotions_total", "Objects copied to the fastest tier.",
                        MetricType::Counter, stats.promotions));
  all->push_back(single("nearkv_demotions_total", "Objects handed down to the next tier.",
                        MetricType::Counter, stats.demotions));
}

void add_tenants(const SessionContext& context, std::vector<MetricFamily>* all) {
  MetricFamily clients =
      family("nearkv_tenant_clients", "Clients connected, by tenant.", MetricType::Gauge);
  MetricFamily used =
      family("nearkv_tenant_used_bytes", "Bytes held by a tenant's objects.", MetricType::Gauge);
  MetricFamily quota = family("nearkv_tenant_quota_bytes",
                              "Most bytes a tenant may hold; +Inf: no limit.", MetricType::Gauge);
  MetricFamily sets = family("nearkv_tenant_sets_total", "Objects stored by a tenant's clients.",
                             MetricType::Counter);
  MetricFamily set_bytes = family("nearkv_tenant_set_bytes_total",
                                  "Bytes stored by a tenant's clients.", MetricType::Counter);
  MetricFamily hits = family("nearkv_tenant_hits_total", "Objects given to a tenant's clients.",
                             MetricType::Counter);
  MetricFamily get_bytes = family("nearkv_tenant_get_bytes_total",
                                  "Bytes given to a tenant's clients.", MetricType::Counter);
  MetricFamily misses =
      family("nearkv_tenant_misses_total", "Objects that a tenant's clients did not find.",
             MetricType::Counter);
  MetricFamily denials = family("nearkv_tenant_denials_total",
                                "Requests refused for want of permission.", MetricType::Counter);
  const std::vector<TenantUsage> usages = context.store->tenants();
  for (const auto& tenant : context.tenants->all()) {
    const std::vector<ClientMetric::Label> label = {{"tenant", tenant->config.name}};
    const auto put = [&](MetricFamily* to, std::uint64_t value) {
      add(to, static_cast<double>(value), label);
    };
    const TenantCounters& counters = tenant->counters;
    put(&clients, counters.clients);
    put(&sets, counters.sets);
    put(&set_bytes, counters.set_bytes);
    put(&hits, counters.hits);
    put(&get_bytes, counters.get_bytes);
    put(&misses, counters.misses);
    put(&denials, counters.denials);
    for (const TenantUsage& usage : usages) {
      if (usage.tenant != tenant->config.number) continue;
      put(&used, usage.used_bytes);
      const bool limited = usage.quota_bytes != std::numeric_limits<std::uint64_t>::max();
      add(&quota,
          limited ? static_cast<double>(usage.quota_bytes)
                  : std::numeric_limits<double>::infinity(),
          label);
    }
  }
  for (MetricFamily* const made :
       {&clients, &used, &quota, &sets, &set_bytes, &hits, &get_bytes, &misses, &denials}) {
    all->push_back(std::move(*made));
  }
}

MetricFamily job_durations(const ServerCounters& counters) {
  MetricFamily made =
      family("nearkv_job_duration_seconds",
             "Time of jobs from being taken from the ring to being over.", MetricType::Histogram);
  constexpr const char* kKinds[] = {"get", "set", "erase", "exists", "set_parts"};
  for (std::size_t kind = 0; kind < counters.jobs.size(); ++kind) {
    const DurationHistogram& durations = counters.jobs[kind];
    ClientMetric metric;
    metric.label = {{"kind", kKinds[kind]}};
    std::uint64_t count = 0;
    for (std::size_t i = 0; i <= DurationHistogram::kBoundsNs.size(); ++i) {
      count += durations.count(i);
      const double bound = i < DurationHistogram::kBoundsNs.size()
                               ? static_cast<double>(DurationHistogram::kBoundsNs[i]) * 1e-9
                               : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({count, bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = static_cast<double>(durations.sum_ns()) * 1e-9;
    made.metric.push_back(std::move(metric));
  }
  return made;
}

/// Connects and goes away again.
void knock(const std::string& address, std::uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
  if (!is_four) ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr);
  const FileDescriptor fd(
      ::socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* const to =
      is_four ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
  [[maybe_unused]] const int connected =
      ::connect(fd.get(), to, is_four ? sizeof(four) : sizeof(six));
}

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  std::vector<MetricFamily> all;
  add_store(*context_.store, &all);
  const ServerCounters& counters = *context_.counters;
  all.push_back(single("nearkv_clients", "Clients connected.", MetricType::Gauge,
                       context_.clients->all().size()));
  all.push_back(single("nearkv_connections_total", "Clients welcomed.", MetricType::Counter,
                       counters.connections));
  all.push_back(single("nearkv_refused_connections_total", "Clients refused.", MetricType::Counter,
                       counters.refused));
  all.push_back(single("nearkv_protocol_errors_total", "Clients cut off for breaking the protocol.",
                       MetricType::Counter, counters.protocol_errors));
  all.push_back(single("nearkv_scrubbed_bytes_total", "Bytes verified in the background.",
                       MetricType::Counter, counters.scrubbed_bytes));
  all.push_back(single("nearkv_scrub_damaged_total", "Damaged objects found in the background.",
                       MetricType::Counter, counters.scrub_damaged));
  add_tenants(context_, &all);
  all.push_back(job_durations(counters));
  return all;
}

Status MetricsServer::start(const std::string& address, std::uint16_t port,
                            const SessionContext& context, std::unique_ptr<MetricsServer>* server,
                            std::string* reason) {
  const std::string at = (address.find(':') != std::string::npos ? "[" + address + "]" : address) +
                         ":" + std::to_string(port);
  std::unique_ptr<MetricsServer> made(new MetricsServer);
  made->metrics_ = std::make_shared<Metrics>(context);
  try {
    made->exposer_ = std::make_unique<prometheus::Exposer>(at, 1);
    made->exposer_->RegisterCollectable(made->metrics_);
  } catch (const std::exception& error) {
    *reason = "metrics at " + at + ": " + error.what() + "; set metrics.address and metrics.port";
    return Status::kIoError;
  }
  made->port_ = static_cast<std::uint16_t>(made->exposer_->GetListeningPorts().front());
  made->address_ = address;
  *server = std::move(made);
  return Status::kOk;
}

MetricsServer::~MetricsServer() {
  if (port_ == 0) return;
  // The library's thread sees that it shall end when somebody connects, or else after two seconds.
  std::atomic<bool> ended{false};
  std::thread ending([&] {
    exposer_.reset();
    ended = true;
  });
  while (!ended) {
    knock(address_, port_);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ending.join();
}

}  // namespace nearkv

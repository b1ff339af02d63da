#include "fabric/link/traffic.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace nearkv::fabric {
namespace {

constexpr std::uint64_t kLineBytes = dram::kLineBytes;
constexpr std::uint64_t kHostBytes = std::uint64_t{1} << 30;

/// One host, which issues the next line when an answer comes.
class Source {
 public:
  Source(System* system, const Traffic& traffic, unsigned host)
      : system_(system), traffic_(traffic), host_(host), random_(traffic.seed + host) {}

  void start() {
    for (unsigned i = 0; i < traffic_.outstanding; ++i) issue(0);
  }
  [[nodiscard]] bool is_done() const { return times_.size() == traffic_.lines; }
  [[nodiscard]] const std::vector<Picoseconds>& times() const { return times_; }

 private:
  void issue(Picoseconds now) {
    if (issued_ == traffic_.lines) return;
    const std::uint64_t line = traffic_.is_random ? random_() % (kHostBytes / kLineBytes) : issued_;
    ++issued_;
    system_->submit({.host = host_,
                     .address = host_ * kHostBytes + line * kLineBytes,
                     .is_write = random_() % 100 < traffic_.write_percent,
                     .done =
                         [this, now](Picoseconds at) {
                           times_.push_back(at - now);
                           issue(at);
                         }},
                    now);
  }

  System* system_;
  const Traffic& traffic_;
  unsigned host_;
  std::mt19937_64 random_;
  std::uint64_t issued_ = 0;
  std::vector<Picoseconds> times_;
};

double nanoseconds(double picoseconds) { return picoseconds / kNanosecond; }

}  // namespace

Measured measure(const Shape& shape, const Traffic& traffic) {
  System system(shape);
  std::vector<Source> sources;
  sources.reserve(shape.hosts);
  for (unsigned host = 0; host < shape.hosts; ++host) sources.emplace_back(&system, traffic, host);
  for (Source& source : sources) source.start();
  while (!std::ranges::all_of(sources, &Source::is_done)) system.advance();

  std::vector<Picoseconds> times;
  for (const Source& source : sources) {
    times.insert(times.end(), source.times().begin(), source.times().end());
  }
  std::ranges::sort(times);
  const auto at = [&](double part) {
    return nanoseconds(static_cast<double>(
        times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))]));
  };
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  const auto count = static_cast<double>(times.size());
  return {.gigabytes_per_s = count * kLineBytes / nanoseconds(static_cast<double>(system.now())),
          .mean_ns = nanoseconds(sum / count),
          .p50_ns = at(0.5),
          .p99_ns = at(0.99)};
}

Picoseconds time_command(const Shape& shape, Picoseconds engine) {
  System system(shape);
  Picoseconds completed = ~Picoseconds{0};
  Picoseconds seen = 0;
  // A poll finds what was written before it reached the card.
  std::function<void(Picoseconds)> poll = [&](Picoseconds from) {
    auto found = std::make_shared<bool>(false);
    system.submit({.address = kLineBytes,
                   .at_card = [&, found](Picoseconds at) { *found = at >= completed; },
                   .done =
                       [&, found](Picoseconds at) {
                         if (*found) {
                           seen = at;
                         } else {
                           poll(at);
                         }
                       }},
                  from);
  };
  system.submit(
      {.address = 0, .is_write = true, .at_card = [&](Picoseconds at) { completed = at + engine; }},
      0);
  poll(0);
  while (seen == 0) system.advance();
  return seen;
}

}  // namespace nearkv::fabric

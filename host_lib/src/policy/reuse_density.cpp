#include "policy/reuse_density.hpp"

#include <algorithm>
#include <bit>

namespace nearkv {
namespace {

constexpr std::uint64_t kSpansPerCapacity = 32;
constexpr std::uint64_t kLearnEverySpans = kSpansPerCapacity / 4;
constexpr std::uint64_t kLearnEveryCalls = 2048;

// Of what was learned before, each time.
constexpr double kRetained = 0.97;

}  // namespace

ReuseDensity::ReuseDensity(std::size_t classes, std::uint64_t capacity_bytes)
    : classes_(classes),
      span_bytes_(std::max<std::uint64_t>(1, capacity_bytes / kSpansPerCapacity)),
      learn_after_span_(kLearnEverySpans) {
  for (Class& each : classes_) {
    // Until something is learned: the least recently used leaves.
    for (std::size_t age = 0; age < kAges; ++age) {
      each.density[age] = 1.0 / static_cast<double>(first_span_of(age + 1));
    }
  }
}

std::size_t ReuseDensity::age_of(std::uint64_t spans) {
  if (spans < 8) return spans;
  const auto octave = static_cast<std::size_t>(std::bit_width(spans)) - 1;
  const std::size_t quarter = (spans >> (octave - 2)) & 3U;
  return std::min(kAges - 1, 8 + 4 * (octave - 3) + quarter);
}

std::uint64_t ReuseDensity::first_span_of(std::size_t age) {
  if (age < 8) return age;
  return (4 + (age & 3U)) << ((age - 8) / 4 + 1);
}

std::size_t ReuseDensity::age_since(std::uint64_t since) const {
  return age_of(span_ - since / span_bytes_);
}

void ReuseDensity::advance(std::uint64_t now) {
  const std::uint64_t until = now / span_bytes_;
  const std::uint64_t passed = std::min<std::uint64_t>(until - span_, kSpans);
  for (Class& each : classes_) {
    for (std::uint64_t span = 1; span <= passed; ++span) {
      std::uint64_t& reached = each.waiting_bytes[(span_ + span) % kSpans];
      each.waiting_longer_bytes += reached;
      reached = 0;
    }
  }
  span_ = until;
  if (++calls_ < kLearnEveryCalls || span_ < learn_after_span_) return;
  for (Class& each : classes_) learn(&each);
  learn_after_span_ = span_ + kLearnEverySpans;
  calls_ = 0;
}

void ReuseDensity::wait(std::size_t object_class, std::uint32_t bytes) {
  classes_[object_class].waiting_bytes[span_ % kSpans] += bytes;
}

std::size_t ReuseDensity::end_wait(Class* of, std::uint64_t since, std::uint32_t bytes) const {
  const std::uint64_t from = since / span_bytes_;
  (span_ - from < kSpans ? of->waiting_bytes[from % kSpans] : of->waiting_longer_bytes) -= bytes;
  return age_of(span_ - from);
}

void ReuseDensity::reused(std::size_t object_class, std::uint64_t since, std::uint32_t bytes) {
  Class& each = classes_[object_class];
  each.reused_bytes[end_wait(&each, since, bytes)] += bytes;
}

void ReuseDensity::given_up(std::size_t object_class, std::uint64_t since, std::uint32_t bytes) {
  Class& each = classes_[object_class];
  each.given_up_bytes[end_wait(&each, since, bytes)] += bytes;
}

void ReuseDensity::withdrawn(std::size_t object_class, std::uint64_t since, std::uint32_t bytes) {
  end_wait(&classes_[object_class], since, bytes);
}

double ReuseDensity::of(std::size_t object_class, std::uint64_t since) const {
  return classes_[object_class].density[age_since(since)];
}

void ReuseDensity::learn(Class* of) const {
  // Those that left the account unused at an age: given up then, or waiting still.
  PerAge<double> unused = of->given_up_bytes;
  for (std::uint64_t spans = 0; spans < std::min<std::uint64_t>(span_ + 1, kSpans); ++spans) {
    unused[age_of(spans)] += static_cast<double>(of->waiting_bytes[(span_ - spans) % kSpans]);
  }
  unused[kAges - 1] += static_cast<double>(of->waiting_longer_bytes);

  // The chance to be reused at an age, having come to it.
  PerAge<double> chance{};
  double came_to = 0;
  for (std::size_t age = kAges; age-- > 0;) {
    came_to += of->reused_bytes[age] + unused[age];
    const double at_risk = came_to - unused[age] / 2;
    chance[age] = at_risk > 0 ? of->reused_bytes[age] / at_risk : 0;
  }
  if (came_to == 0) return;

  for (std::size_t from = 0; from < kAges; ++from) {
    double left = 1;
    double hits = 0;
    double spans = 0;
    double best = 0;
    for (std::size_t age = from; age < kAges; ++age) {
      hits += left * chance[age];
      spans += left * (1 - chance[age] / 2) *
               static_cast<double>(first_span_of(age + 1) - first_span_of(age));
      left *= 1 - chance[age];
      best = std::max(best, hits / spans);
    }
    of->density[from] = best;
  }
  for (double& bytes : of->reused_bytes) bytes *= kRetained;
  for (double& bytes : of->given_up_bytes) bytes *= kRetained;
}

}  // namespace nearkv

#include "fabric/link/flits.hpp"

namespace nearkv::fabric {
namespace {

constexpr std::uint64_t kFlitBits = 544;  // 68 bytes.
constexpr std::uint64_t kFlitHalves = 8;

}  // namespace

Picoseconds LinkShape::flit() const {
  return kFlitBits * 1000 / (std::uint64_t{lanes} * gigatransfers);
}

Picoseconds LinkDirection::send(Picoseconds now, unsigned halves) {
  const auto end = [this] {
    return run_start_ + (run_halves_ + kFlitHalves - 1) / kFlitHalves * flit_;
  };
  if (now >= end()) {
    run_start_ = now;
    run_halves_ = 0;
  }
  // What comes when a flit is on its way already goes with the next one.
  const std::uint64_t gone = (now - run_start_ + flit_ - 1) / flit_ * kFlitHalves;
  if (now > run_start_ && run_halves_ < gone) run_halves_ = gone;
  run_halves_ += halves;
  return end();
}

}  // namespace nearkv::fabric

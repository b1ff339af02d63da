#include "fabric/dram/timing.hpp"

#include <algorithm>
#include <array>

namespace nearkv::dram {
namespace {

/// One 64-bit channel of one rank, 8 Gbit x8, DDR4-3200AA (JESD79-4C): tCK 0.625 ns.
constexpr Timing kDdr4{
    .name = "ddr4",
    .clocks_per_cycle = 4,
    .channels = 1,
    .groups = 4,
    .banks = 4,
    .lines = 128,
    .columns = 1,
    .has_row_bus = false,
    .clocks_activate = 1,
    .clocks_column = 1,
    .cl = 22,
    .cwl = 16,
    .burst = 4,
    .rcd = 22,
    .rp = 22,
    .ras = 52,
    .rtp = 12,
    .wr = 24,
    .ppd = 1,
    .ccd_s = 4,
    .ccd_l = 8,
    .ccd_s_wr = 4,
    .ccd_l_wr = 8,
    .wtr_s = 4,
    .wtr_l = 12,
    .rtw = 12,
    .rrd_s = 4,
    .rrd_l = 8,
    .faw = 34,
    .refresh = {.slices = 1, .interval = 12480, .duration = 560, .spacing = 0},
};

/// Both 32-bit subchannels of a DIMM of one rank, 16 Gbit x8, DDR5-4800B (JESD79-5B): tCK 0.416 ns.
constexpr Timing kDdr5{
    .name = "ddr5",
    .clocks_per_cycle = 6,
    .channels = 2,
    .groups = 8,
    .banks = 4,
    .lines = 64,
    .columns = 1,
    .has_row_bus = false,
    .clocks_activate = 2,
    .clocks_column = 2,
    .cl = 40,
    .cwl = 38,
    .burst = 8,
    .rcd = 39,
    .rp = 39,
    .ras = 77,
    .rtp = 18,
    .wr = 72,
    .ppd = 2,
    .ccd_s = 8,
    .ccd_l = 12,
    .ccd_s_wr = 8,
    .ccd_l_wr = 24,
    .wtr_s = 6,
    .wtr_l = 24,
    .rtw = 14,
    .rrd_s = 8,
    .rrd_l = 12,
    .faw = 32,
    .refresh = {.slices = 1, .interval = 9360, .duration = 708, .spacing = 0},
};

/// The same, refreshed a quarter of its banks at a time, at the fine granularity that this needs.
constexpr Timing same_bank_ddr5() {
  Timing timing = kDdr5;
  timing.name = "ddr5_same_bank";
  timing.refresh = {.slices = 4, .interval = 1170, .duration = 312, .spacing = 72};
  return timing;
}

/// One pseudo-channel of HBM2E at 3.2 Gbit/s a pin, 8 Gbit a channel: tCK 0.625 ns. JESD235C leaves
/// the core's times to vendors; these are the nanoseconds of gem5's HBM_2000_4H_1x64.
constexpr Timing kHbm2e{
    .name = "hbm2e",
    .clocks_per_cycle = 4,
    .channels = 1,
    .groups = 4,
    .banks = 4,
    .lines = 16,
    .columns = 2,
    .has_row_bus = true,
    .clocks_activate = 2,
    .clocks_column = 1,
    .cl = 29,
    .cwl = 12,
    .burst = 2,
    .rcd = 20,
    .rp = 23,
    .ras = 45,
    .rtp = 8,
    .wr = 23,
    .ppd = 1,
    .ccd_s = 2,
    .ccd_l = 5,
    .ccd_s_wr = 2,
    .ccd_l_wr = 5,
    .wtr_s = 7,
    .wtr_l = 15,
    .rtw = 29,
    .rrd_s = 7,
    .rrd_l = 10,
    .faw = 26,
    .refresh = {.slices = 1, .interval = 6240, .duration = 560, .spacing = 0},
};

constexpr std::array kTimings{kDdr4, kDdr5, same_bank_ddr5(), kHbm2e};

}  // namespace

std::span<const Timing> timings() { return kTimings; }

const Timing* find_timing(std::string_view name) {
  const auto found = std::ranges::find(kTimings, name, &Timing::name);
  return found == kTimings.end() ? nullptr : &*found;
}

}  // namespace nearkv::dram

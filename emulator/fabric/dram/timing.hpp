// What a kind of DRAM is: geometry and JEDEC times, in clocks of the memory (tCK).
#pragma once

#include <span>
#include <string_view>

namespace nearkv::dram {

/// A refresh takes the banks of one slice: all of a channel (1 slice), or the same bank of every
/// bank group (as many slices as a group has banks).
struct Refresh {
  unsigned slices;
  unsigned interval;  ///< tREFI / slices: from one refresh to the next.
  unsigned duration;  ///< tRFC, tRFCsb.
  unsigned spacing;   ///< tREFSBRD: from a refresh to an activation of a bank of another slice.
};

struct Timing {
  std::string_view name;
  unsigned clocks_per_cycle;  ///< Of the engine's 400 MHz.

  unsigned channels;  ///< Lines alternate between them.
  unsigned groups;    ///< Bank groups of a channel.
  unsigned banks;     ///< Of a group.
  unsigned lines;     ///< 64-byte lines in a row of one bank.
  unsigned columns;   ///< Column commands that a line takes.

  bool has_row_bus;          ///< Row commands do not share the bus of column commands.
  unsigned clocks_activate;  ///< Of the bus, for an activation;
  unsigned clocks_column;    ///< for a read or write. Other commands take one.

  unsigned cl;     ///< Read to its first data.
  unsigned cwl;    ///< Write to its first data.
  unsigned burst;  ///< Data of one column command.
  unsigned rcd;    ///< Activation to read or write.
  unsigned rp;     ///< Precharge to activation.
  unsigned ras;    ///< Activation to precharge; tRC is ras + rp.
  unsigned rtp;    ///< Read to precharge.
  unsigned wr;     ///< Last data written to precharge.
  unsigned ppd;    ///< Precharge to precharge.

  unsigned ccd_s, ccd_l;        ///< Read to read, another group's; the same group's.
  unsigned ccd_s_wr, ccd_l_wr;  ///< Write to write.
  unsigned wtr_s, wtr_l;        ///< Last data written to read.
  unsigned rtw;                 ///< Read to write.
  unsigned rrd_s, rrd_l;        ///< Activation to activation.
  unsigned faw;                 ///< Four activations.

  Refresh refresh;

  [[nodiscard]] unsigned bank_count() const { return groups * banks; }
  /// Banks are numbered group by group: 0 to groups - 1 are bank 0 of each.
  [[nodiscard]] unsigned group_of(unsigned bank) const { return bank % groups; }
  [[nodiscard]] unsigned slice_of(unsigned bank) const {
    return bank * refresh.slices / bank_count();
  }
  /// Clocks from the activation that a read needs to its last data.
  [[nodiscard]] unsigned closed_read() const { return rcd + (columns - 1) * ccd_l + cl + burst; }
};

/// Those that a name chooses.
std::span<const Timing> timings();
/// Null where there is none of this name.
const Timing* find_timing(std::string_view name);

}  // namespace nearkv::dram

#include "kernels/hotness.hpp"

#include "kernels/number.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

using Unit = ap_uint<kUnitBits>;
using Place = ap_uint<kPlaceBits>;
using Count = ap_uint<kCountBits>;

constexpr int kPlaces = 1 << kPlaceBits;
constexpr int kLargestCount = (1 << kCountBits) - 1;
constexpr int kUnitsOfBurst = kBurstBytes / 4;
constexpr int kInFlight = 4;  // Accesses whose words the memory does not show yet.

struct Cell {
  Count count;
  ap_uint<1> mark;  // A unit with this place was told.
};

/// A cell on its way back to memory.
struct Recent {
  Place place;
  Cell cell;
};

/// Of a row and a bit of the place: which bits of the unit it is the parity of.
constexpr std::uint64_t hash_mask(int row, int bit) {
  std::uint64_t z = static_cast<std::uint64_t>(row * 64 + bit + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

Place place_of(Unit unit, int row) {
#pragma HLS inline
  Place place = 0;
  for (int bit = 0; bit < kPlaceBits; ++bit) {
#pragma HLS unroll
    place[bit] = Unit(unit & Unit(hash_mask(row, bit))).xor_reduce();
  }
  return place;
}

void to_units(const Burst* memory, int count, stream<Unit>& units) {
  Burst burst = 0;
read_units:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 1048576
#pragma HLS pipeline II = 1  // A burst is read every 16 cycles.
    if (i % kUnitsOfBurst == 0) burst = memory[i / kUnitsOfBurst];
    units.write(Unit(part_of<32>(burst, i % kUnitsOfBurst)));
  }
}

void count_units(stream<Unit>& units, int count, int threshold, Cell cells[kSketchRows][kPlaces],
                 HotUnit* hot, int* hot_count) {
  Recent recent[kSketchRows][kInFlight];
#pragma HLS array_partition variable = recent complete dim = 0
  for (int row = 0; row < kSketchRows; ++row) {
#pragma HLS unroll
    for (int age = 0; age < kInFlight; ++age) {
#pragma HLS unroll
      recent[row][age] = Recent{0, cells[row][0]};  // What the memory has, too.
    }
  }
  int found = 0;
count_units:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 1048576
// Words of the last kInFlight accesses come from `recent`.
#pragma HLS dependence variable = cells inter distance = 4 true
#pragma HLS pipeline II = 1  // By `recent`, as the RTL forwards from its three last stages.
    const Unit unit = units.read();
    Place place[kSketchRows];
    Cell cell[kSketchRows];
    Count least = kLargestCount;
    ap_uint<1> is_known = 1;
    for (int row = 0; row < kSketchRows; ++row) {
#pragma HLS unroll
      place[row] = place_of(unit, row);
      cell[row] = cells[row][place[row]];
      for (int age = kInFlight - 1; age >= 0; --age) {
#pragma HLS unroll
        if (recent[row][age].place == place[row]) cell[row] = recent[row][age].cell;
      }
      least = least_of(least, cell[row].count);
      is_known &= cell[row].mark;
    }
    const bool is_reached = least + 1 >= threshold;
    for (int row = 0; row < kSketchRows; ++row) {
#pragma HLS unroll
      // Conservative: only those that hold the least are raised.
      if (cell[row].count == least && least != kLargestCount) cell[row].count += 1;
      if (is_reached) cell[row].mark = 1;
      cells[row][place[row]] = cell[row];
      for (int age = kInFlight - 1; age > 0; --age) {
#pragma HLS unroll
        recent[row][age] = recent[row][age - 1];
      }
      recent[row][0] = Recent{place[row], cell[row]};
    }
    if (is_reached && is_known == 0) {
      const int estimate = least_of(least.to_int() + 1, kLargestCount);
      hot[found++] = HotUnit{unit.to_uint(), static_cast<std::uint32_t>(estimate)};
    }
  }
  *hot_count = found;
}

void count_accesses(const Burst* memory, int count, int threshold, Cell cells[kSketchRows][kPlaces],
                    HotUnit* hot, int* hot_count) {
#pragma HLS dataflow
  stream<Unit> units("units");
#pragma HLS stream variable = units depth = 32
  to_units(memory, count, units);
  count_units(units, count, threshold, cells, hot, hot_count);
}

}  // namespace

extern "C" int nearkv_hotness(const Burst* units, int count, int threshold, bool clear,
                              HotUnit* hot) {
#pragma HLS interface mode = m_axi port = units bundle = units
#pragma HLS interface mode = m_axi port = hot bundle = hot
  static Cell cells[kSketchRows][kPlaces];
#pragma HLS array_partition variable = cells complete dim = 1
#pragma HLS bind_storage variable = cells type = ram_2p impl = bram
  if (clear) {
  clear_cells:
    for (int place = 0; place < kPlaces; ++place) {
#pragma HLS pipeline II = 1  // All rows at once.
      for (int row = 0; row < kSketchRows; ++row) {
#pragma HLS unroll
        cells[row][place] = Cell{0, 0};
      }
    }
  }
  int hot_count = 0;
  count_accesses(units, count, threshold, cells, hot, &hot_count);
  return hot_count;
}

// Constants of codes (section 11): octaves in sixteenths, cells, plane ratios, sign sets.
#ifndef NEARKV_MODEL_CODE_TABLES_HPP_
#define NEARKV_MODEL_CODE_TABLES_HPP_

#include <array>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv::model {

inline constexpr int kMostCodePlanes = NKV_KEY_CODE_PLANES;

/// How the rows of a tensor are coded.
struct CodeForm {
  int planes;           ///< B.
  int factor_step;      ///< One step of a factor, in sixteenths of an octave.
  int64_t cells_per_z;  ///< 2^16 cells per mean |z| and channel (11.5).
  int size;             ///< g², in 1/16: what a factor tells of its row's length (11.7).
  /// For b = 1..B planes at [b − 1]: what a factor is multiplied by, in 1/256, and the variance of
  /// the estimate of one channel, in 1/4096 of the mean z².
  std::array<int, kMostCodePlanes> ratio;
  std::array<int, kMostCodePlanes> variance;
};

inline constexpr CodeForm kKeyCodes{.planes = NKV_KEY_CODE_PLANES,
                                    .factor_step = 2,
                                    .cells_per_z = 186750,
                                    .size = 760,
                                    .ratio = {276, 267, 259, 256},
                                    .variance = {2340, 572, 163, 62}};
inline constexpr CodeForm kValueCodes{.planes = NKV_VALUE_CODE_PLANES,
                                      .factor_step = 4,
                                      .cells_per_z = 96833,
                                      .size = 196,
                                      .ratio = {281, 265, 256, 0},
                                      .variance = {2349, 571, 174, 0}};

/// G[i] = round(2^11 · 2^(i/16)), i = 0..15.
const std::array<int64_t, 16>& octave_table();

/// 2^(sixteenths / 16) as mantissa · 2^power, mantissa from the table of octaves.
struct Octaves {
  int64_t mantissa;
  int power;
};
Octaves octaves(int sixteenths);

/// floor(2^(sixteenths / 16 + bits)) by that table.
int64_t octaves_fixed(int sixteenths, int bits);

/// floor(16 · log2 value) by the 16 leading bits of value (truncated) and comparisons with
/// ceil(2^15 · 2^(i/16)), i = 1..15; value > 0.
int log2_sixteenths(uint64_t value);

/// Whether the sign of a channel is minus in a set.
bool is_minus(int set, uint32_t channel);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_TABLES_HPP_

// Decode attention over a window of keys and values that the GPU holds: (O, LSE) by parts of it.
#pragma once

#include "nearkv_cuda.h"
#include "numbers.hpp"

namespace nearkv::cuda {

/// A block attends with kRows rows of one KV head to one part of the tokens, tile by tile. A tile's
/// keys go through shared memory, so that a thread has a whole key; its values are shared out to
/// teams of threads, a thread for eight channels. No thread needs another's registers.
template <unsigned kRows>
class Attend {
 public:
  explicit Attend(const nearkv_cuda_attend_args& args) : args_(args) {}

  [[nodiscard]] Grid grid() const {
    const std::uint64_t row_blocks = (args_.group + kRows - 1) / kRows;
    const std::size_t keys = kTile * key_pitch();
    const std::size_t sums = std::size_t{kThreads} / 2 * kRows * kChunk * sizeof(float);
    return {row_blocks * args_.batch * args_.kv_heads * args_.splits,
            query_bytes() + sizeof(State) + (sums > keys ? sums : keys)};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const Place place = place_of(block.index());
    auto* const query = reinterpret_cast<float*>(block.shared());
    State& state = *reinterpret_cast<State*>(block.shared() + query_bytes());
    std::byte* const keys = block.shared() + query_bytes() + sizeof(State);
    load_query(block, place, query);
    const Team team = team_of(block.thread());
    float sums[kRows][kChunk] = {};
    for (std::uint32_t tile = place.begin; tile < place.end; tile += kTile) {
      const std::uint32_t count = place.end - tile < kTile ? place.end - tile : kTile;
      load_keys(block, place, tile, count, keys);
      block.sync();
      score(block, query, keys, count, &state);
      block.sync();
      if (block.thread() < kRows) raise(block.thread(), tile == place.begin, &state);
      block.sync();
      weigh(block, &state);
      block.sync();
      if (block.thread() < kRows) add_weights(block.thread(), &state);
      if (team.works) add_values(place, tile, count, team, state, sums);
      block.sync();
    }
    join_teams(block, team, reinterpret_cast<float*>(keys), sums);
    if (team.works && team.index == 0) store(place, team.channel, state, sums);
  }

 private:
  static constexpr unsigned kTile = 64;  // Tokens.
  static constexpr unsigned kHalf = (kRows + 1) / 2;

  struct Place {
    std::uint32_t batch, head, row, part;
    std::uint32_t begin, end;  ///< Tokens.
  };

  /// The softmax so far of each row, in base 2, and of the tile its logits, then its weights.
  struct alignas(16) State {
    float greatest[kRows];
    float sum[kRows];
    float shrink[kRows];  ///< What earlier weights are multiplied with.
    float weight[kRows][kTile];
  };

  /// Takes tokens `index`, `index + count`, .. and eight channels of them.
  struct Team {
    unsigned index, count, channel;
    bool works;
  };

  [[nodiscard]] NKV_BOTH std::size_t element_bytes() const {
    return args_.dtype == NKV_DTYPE_FP32 ? 4 : 2;
  }
  [[nodiscard]] NKV_BOTH std::size_t query_bytes() const {
    return std::size_t{kRows} * args_.head_dim * sizeof(float);
  }
  /// A key in shared memory; the 16 bytes more put neighbours' keys into different banks.
  [[nodiscard]] NKV_BOTH std::size_t key_pitch() const {
    return args_.head_dim * element_bytes() + sizeof(Words4);
  }

  [[nodiscard]] NKV_KERNEL const std::byte* row(const void* tensor,
                                                const nearkv_cuda_strides& strides,
                                                const Place& place, std::uint32_t index) const {
    const std::int64_t element =
        place.batch * strides.batch + place.head * strides.head + index * strides.row;
    return static_cast<const std::byte*>(tensor) +
           element * static_cast<std::int64_t>(element_bytes());
  }

  [[nodiscard]] NKV_KERNEL Place place_of(std::uint64_t index) const {
    const std::uint32_t row_blocks = (args_.group + kRows - 1) / kRows;
    Place place{};
    place.row = static_cast<std::uint32_t>(index % row_blocks) * kRows;
    index /= row_blocks;
    place.part = static_cast<std::uint32_t>(index % args_.splits);
    index /= args_.splits;
    place.head = static_cast<std::uint32_t>(index % args_.kv_heads);
    place.batch = static_cast<std::uint32_t>(index / args_.kv_heads);
    const std::int64_t tokens = args_.tokens;
    std::int64_t first = args_.first != nullptr ? args_.first[place.batch] : 0;
    std::int64_t end = args_.end != nullptr ? args_.end[place.batch] : tokens;
    first = first < 0 ? 0 : first;
    end = end > tokens ? tokens : end;
    const std::int64_t seen = end > first ? end - first : 0;
    const std::int64_t tiles = (seen + kTile - 1) / kTile;
    const std::int64_t share = (tiles + args_.splits - 1) / args_.splits * kTile;
    const std::int64_t begin = place.part * share < seen ? place.part * share : seen;
    const std::int64_t stop = begin + share < seen ? begin + share : seen;
    place.begin = static_cast<std::uint32_t>(first + begin);
    place.end = static_cast<std::uint32_t>(first + stop);
    return place;
  }

  [[nodiscard]] NKV_KERNEL Team team_of(unsigned thread) const {
    const unsigned lanes = args_.value_dim / kChunk;
    const unsigned count = kThreads / lanes;
    return {thread / lanes, count, thread % lanes * kChunk, thread / lanes < count};
  }

  template <typename Block>
  NKV_KERNEL void load_query(Block& block, const Place& place, float* query) const {
    const unsigned chunks = args_.head_dim / kChunk;
    for (unsigned i = block.thread(); i < kRows * chunks; i += kThreads) {
      const unsigned index = place.row + i / chunks;
      float* const out = query + std::size_t{i} * kChunk;
      if (index < args_.group) {
        const std::byte* const source = row(args_.query, args_.query_strides, place, index);
        load_chunk(source + i % chunks * kChunk * element_bytes(), args_.dtype, out);
      } else {
        for (unsigned c = 0; c < kChunk; ++c) out[c] = 0;
      }
    }
  }

  template <typename Block>
  NKV_KERNEL void load_keys(Block& block, const Place& place, std::uint32_t tile,
                            std::uint32_t count, std::byte* keys) const {
    const auto words = static_cast<unsigned>(args_.head_dim * element_bytes() / sizeof(Words4));
    for (unsigned i = block.thread(); i < count * words; i += kThreads) {
      const std::byte* const source =
          row(args_.key, args_.key_strides, place, tile + i / words) + i % words * sizeof(Words4);
      *reinterpret_cast<Words4*>(keys + i / words * key_pitch() + i % words * sizeof(Words4)) =
          *reinterpret_cast<const Words4*>(source);
    }
  }

  /// Half of the rows beside one key in each of two turns.
  template <typename Block>
  NKV_KERNEL void score(Block& block, const float* query, const std::byte* keys,
                        std::uint32_t count, State* state) const {
    for (unsigned i = block.thread(); i < 2 * kTile; i += kThreads) {
      const unsigned token = i % kTile;
      const unsigned first = i / kTile * kHalf;
      float dots[kHalf] = {};
      if (token < count) {
        const std::byte* const key = keys + token * key_pitch();
        for (unsigned c = 0; c < args_.head_dim; c += kChunk) {
          float k[kChunk];
          load_chunk(key + c * element_bytes(), args_.dtype, k);
          for (unsigned r = 0; r < kHalf; ++r) {
            if (first + r >= kRows) break;
            const float* const q = query + std::size_t{first + r} * args_.head_dim + c;
            for (unsigned j = 0; j < kChunk; ++j) dots[r] += q[j] * k[j];
          }
        }
      }
      for (unsigned r = 0; r < kHalf; ++r) {
        if (first + r >= kRows) break;
        state->weight[first + r][token] = token < count ? logit(dots[r]) : minus_infinity();
      }
    }
  }

  /// In base 2.
  [[nodiscard]] NKV_KERNEL float logit(float dot) const {
    const float scaled = dot * args_.scale;
    if (args_.soft_cap == 0) return scaled * kLog2E;
    return args_.soft_cap * tanhf(scaled / args_.soft_cap) * kLog2E;
  }

  NKV_KERNEL void raise(unsigned row, bool is_first, State* state) const {
    const float before = is_first ? minus_infinity() : state->greatest[row];
    float greatest = before;
    for (unsigned t = 0; t < kTile; ++t) greatest = fmaxf(greatest, state->weight[row][t]);
    state->shrink[row] = before == minus_infinity() ? 0 : exp2f(before - greatest);
    state->greatest[row] = greatest;
    if (is_first) state->sum[row] = 0;
  }

  template <typename Block>
  NKV_KERNEL void weigh(Block& block, State* state) const {
    for (unsigned i = block.thread(); i < kRows * kTile; i += kThreads) {
      float& weight = state->weight[i / kTile][i % kTile];
      weight = weight == minus_infinity() ? 0 : exp2f(weight - state->greatest[i / kTile]);
    }
  }

  NKV_KERNEL void add_weights(unsigned row, State* state) const {
    float sum = 0;
    for (unsigned t = 0; t < kTile; ++t) sum += state->weight[row][t];
    state->sum[row] = state->sum[row] * state->shrink[row] + sum;
  }

  NKV_KERNEL void add_values(const Place& place, std::uint32_t tile, std::uint32_t count,
                             const Team& team, const State& state,
                             float (&sums)[kRows][kChunk]) const {
    for (unsigned r = 0; r < kRows; ++r) {
      for (unsigned j = 0; j < kChunk; ++j) sums[r][j] *= state.shrink[r];
    }
    for (unsigned t = team.index; t < count; t += team.count) {
      float v[kChunk];
      const std::byte* const source = row(args_.value, args_.value_strides, place, tile + t);
      load_chunk(source + team.channel * element_bytes(), args_.dtype, v);
      for (unsigned r = 0; r < kRows; ++r) {
        const float weight = state.weight[r][t];
        for (unsigned j = 0; j < kChunk; ++j) sums[r][j] += weight * v[j];
      }
    }
  }

  /// Leaves the sums of all teams with the first, by halves.
  template <typename Block>
  NKV_KERNEL void join_teams(Block& block, const Team& team, float* moved,
                             float (&sums)[kRows][kChunk]) const {
    constexpr unsigned kPitch = kThreads / 2;
    const unsigned lanes = args_.value_dim / kChunk;
    for (unsigned left = team.count; left > 1;) {
      const unsigned kept = (left + 1) / 2;
      const bool gives = team.works && team.index >= kept && team.index < left;
      const bool takes = team.works && team.index < left - kept;
      const unsigned at = (gives ? team.index - kept : team.index) * lanes + team.channel / kChunk;
      for (unsigned r = 0; gives && r < kRows; ++r) {
        for (unsigned j = 0; j < kChunk; ++j) moved[(r * kChunk + j) * kPitch + at] = sums[r][j];
      }
      block.sync();
      for (unsigned r = 0; takes && r < kRows; ++r) {
        for (unsigned j = 0; j < kChunk; ++j) sums[r][j] += moved[(r * kChunk + j) * kPitch + at];
      }
      block.sync();
      left = kept;
    }
  }

  NKV_KERNEL void store(const Place& place, unsigned channel, const State& state,
                        const float (&sums)[kRows][kChunk]) const {
    const std::uint64_t rows = std::uint64_t{args_.batch} * args_.kv_heads * args_.group;
    const bool is_empty = place.begin == place.end;
    for (unsigned r = 0; r < kRows; ++r) {
      if (place.row + r >= args_.group) break;
      const std::uint64_t at =
          place.part * rows +
          (std::uint64_t{place.batch} * args_.kv_heads + place.head) * args_.group + place.row + r;
      const float sum = is_empty ? 0 : state.sum[r];
      for (unsigned j = 0; j < kChunk; ++j) {
        args_.output[at * args_.value_dim + channel + j] = sum == 0 ? 0 : sums[r][j] / sum;
      }
      if (channel == 0) {
        args_.lse[at] = sum == 0 ? minus_infinity() : (state.greatest[r] + log2f(sum)) * kLn2;
      }
    }
  }

  nearkv_cuda_attend_args args_;
};

}  // namespace nearkv::cuda

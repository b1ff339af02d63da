// How the units of the lossy codecs are driven: blocks one after the other, each started as soon as
// the unit is ready, with their bytes before and behind them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "blocks.hpp"
#include "codec_data.hpp"
#include "nearkv/codec.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr std::array kLossyCodecs{Codec::kInt8, Codec::kInt4, Codec::kFp8};
inline constexpr std::array kTensors{Tensor::kKeys, Tensor::kValues};
inline constexpr unsigned kGreatestDim = 128;

/// A block that is started, and what the unit makes of it; nothing where it fails.
struct Job {
  Codec codec = Codec::kInt8;
  BlockShape shape;
  Bytes input;
  std::optional<Bytes> output;
  bool may_send = false;  ///< A block that fails may have sent rows.
};

inline BlockShape shape_of(Tensor tensor, unsigned dim) {
  return {.tensor = tensor, .dtype = RowDtype::kBf16, .dim = static_cast<std::uint16_t>(dim)};
}

/// Gives the job a size or a shape that none has, another one every round; it is refused.
inline void spoil(Job& job, unsigned round, test::Random& random) {
  job.output.reset();
  job.may_send = false;
  switch (round % 6) {
    case 0:
      job.input.resize(job.input.size() + 1 + random() % 200);
      break;
    case 1:
      job.input.resize(random() % job.input.size());
      break;
    case 2:
      job.shape.dim =
          static_cast<std::uint16_t>(std::array{0, 8, 24, 144, 576, 65535}[round / 6 % 6]);
      break;
    case 3:
      job.codec = std::array{Codec::kNone, static_cast<Codec>(1), Codec::kPlanesLz4,
                             static_cast<Codec>(7)}[round / 6 % 4];
      break;
    case 4:
      job.shape.tensor = static_cast<Tensor>(2);
      break;
    default:
      job.input.resize(round % 12 < 6 ? 0 : 131071);
      break;
  }
}

inline Bytes to_bytes(std::span<const std::byte> from) {
  Bytes bytes(from.size());
  std::memcpy(bytes.data(), from.data(), from.size());
  return bytes;
}

/// What the library makes of rows, if it takes them.
inline std::optional<Bytes> encoded(Codec codec, const BlockShape& shape, const Bytes& rows,
                                    CodecWorkspace& workspace) {
  std::vector<std::byte> out(encoded_bound(codec, shape));
  std::size_t size = 0;
  if (encode(codec, shape, std::as_bytes(std::span(rows)), out, &size, workspace) != Status::kOk) {
    return std::nullopt;
  }
  return to_bytes(std::span(out).first(size));
}

inline std::optional<Bytes> decoded(Codec codec, const BlockShape& shape, const Bytes& block,
                                    CodecWorkspace& workspace) {
  std::vector<std::byte> rows(block_bytes(shape));
  if (decode(codec, shape, std::as_bytes(std::span(block)), rows, workspace) != Status::kOk) {
    return std::nullopt;
  }
  return to_bytes(rows);
}

template <typename Module>
class QuantBench {
 public:
  QuantBench() { module_.reset(); }

  /// Runs the jobs through the unit, each side willing its pace of 8; cycles from the first start
  /// to the last end. The ends come in order, each with what is expected.
  std::uint64_t run(const std::vector<Job>& jobs, unsigned in_pace = 8, unsigned out_pace = 8) {
    std::vector<Bytes> inputs;
    std::uint64_t limit = 4000;
    for (const Job& job : jobs) {
      Bytes input = job.input;
      input.resize((input.size() + kBurst - 1) / kBurst * kBurst, 0xA5);
      limit += 2000 + (input.size() + 16384) / 2;
      inputs.push_back(std::move(input));
    }
    std::size_t started = 0;
    std::size_t feeding = 0;
    std::size_t next = 0;
    std::size_t ended = 0;
    Bytes out;
    bool was_last = false;
    const std::uint64_t begin = module_.cycles();
    while (ended < jobs.size()) {
      while (feeding < started && next == inputs[feeding].size()) {
        ++feeding;
        next = 0;
      }
      module_->start_valid_i = started < jobs.size();
      if (module_->start_valid_i) set_start(jobs[started]);
      module_->in_valid_i = feeding < started && is_willing(random_, in_pace);
      if (module_->in_valid_i) std::memcpy(&module_->in_data_i, &inputs[feeding][next], kBurst);
      module_->out_ready_i = is_willing(random_, out_pace);
      module_.settle();
      const bool starts = module_->start_valid_i && module_->start_ready_o;
      if (module_->in_valid_i && module_->in_ready_o) next += kBurst;
      if (module_->done_o) {
        judge(jobs[ended], out, was_last, ended);
        out.clear();
        was_last = false;
        ++ended;
      }
      if (module_->out_valid_o && module_->out_ready_i) {
        EXPECT_FALSE(was_last);
        was_last = module_->out_last_o;
        append(out);
      }
      if (module_.cycles() - begin > limit || testing::Test::HasFailure()) {
        ADD_FAILURE() << "it hangs or is wrong in block " << ended << " of " << jobs.size();
        return 0;
      }
      if (ended == jobs.size()) break;
      module_.tick();
      started += starts ? 1 : 0;
    }
    EXPECT_EQ(started, jobs.size());
    for (; feeding < jobs.size() && next == inputs[feeding].size(); next = 0) ++feeding;
    EXPECT_EQ(feeding, jobs.size()) << "bursts that were not taken";
    const std::uint64_t cycles = module_.cycles() - begin;
    module_->start_valid_i = 0;
    module_->in_valid_i = 0;
    module_.tick();
    return cycles;
  }

  /// Starts a block, has its bytes come for `cycles`, and resets the unit.
  void abandon(const Job& job, unsigned cycles) {
    std::size_t next = 0;
    set_start(job);
    module_->start_valid_i = 1;
    module_->out_ready_i = 1;
    for (unsigned i = 0; i < cycles; ++i) {
      module_->in_valid_i = next + kBurst <= job.input.size();
      if (module_->in_valid_i) std::memcpy(&module_->in_data_i, &job.input[next], kBurst);
      module_.settle();
      if (module_->in_valid_i && module_->in_ready_o) next += kBurst;
      module_.tick();
      module_->start_valid_i = 0;
    }
    module_->in_valid_i = 0;
    module_.reset();
  }

  test::Random& random() { return random_; }

 private:
  void set_start(const Job& job) {
    module_->codec_i = static_cast<std::uint8_t>(job.codec);
    module_->tensor_i = static_cast<std::uint8_t>(job.shape.tensor);
    module_->dim_i = job.shape.dim;
    module_->in_bytes_i = static_cast<std::uint32_t>(job.input.size());
  }

  // A decoder's bursts are always whole.
  void append(Bytes& out) {
    std::size_t size = kBurst;
    if constexpr (requires { module_->out_bytes_o; }) size = module_->out_bytes_o;
    std::array<std::uint8_t, kBurst> burst;
    std::memcpy(burst.data(), &module_->out_data_o, kBurst);
    out.insert(out.end(), burst.begin(), burst.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_TRUE(size == kBurst || module_->out_last_o);
    EXPECT_TRUE(std::all_of(burst.begin() + static_cast<std::ptrdiff_t>(size), burst.end(),
                            [](std::uint8_t byte) { return byte == 0; }));
  }

  void judge(const Job& job, const Bytes& out, bool was_last, std::size_t index) {
    EXPECT_EQ(module_->error_o, !job.output.has_value())
        << "block " << index << ' ' << test::describe(job.codec, job.shape);
    if (job.output.has_value()) {
      EXPECT_TRUE(was_last);
      EXPECT_EQ(out.size(), job.output->size());
      const auto differ =
          std::mismatch(out.begin(), out.end(), job.output->begin(), job.output->end());
      EXPECT_TRUE(out == *job.output)
          << "block " << index << ' ' << test::describe(job.codec, job.shape) << " at byte "
          << differ.first - out.begin() << " of " << out.size();
    } else {
      EXPECT_TRUE(out.empty() || job.may_send);
    }
  }

  Simulation<Module> module_;
  test::Random random_ = test::case_random(9);
};

/// Bytes of rows per cycle when many blocks of a shape follow each other, and from a start to its
/// end.
struct Speed {
  double steady = 0;
  double alone = 0;
};

template <typename Module>
Speed speed_of(QuantBench<Module>& bench, const Job& job) {
  constexpr std::size_t kFew = 8;
  constexpr std::size_t kMany = 40;
  const auto few = bench.run(std::vector<Job>(kFew, job));
  const auto many = bench.run(std::vector<Job>(kMany, job));
  const auto bytes = static_cast<double>(block_bytes(job.shape));
  return {.steady = bytes * (kMany - kFew) / static_cast<double>(many - few),
          .alone = bytes / static_cast<double>(bench.run({job}))};
}

}  // namespace nearkv::rtl_test

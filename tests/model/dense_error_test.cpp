// Dense ATTEND against double precision: the error that ARITHMETIC.md section 10 promises, over
// every shape and over inputs made to break it. Prints what it measures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include "attention.hpp"

namespace nearkv::test {
namespace {

constexpr double kPromised = 0x1p-8;

struct Tensors {
  Rows keys;
  Rows values;
  Rows query;
};

struct Case {
  std::string name;
  uint32_t head_dim = 128;
  uint32_t value_dim = 128;
  uint32_t group = 4;
  uint32_t tokens = 4096;
  uint8_t dtype = NKV_DTYPE_BF16;
  PageForm form{};
  std::function<Tensors(const Case&, Random&)> make;
  float scale = 0.0f;
};

Tensors random_tensors(const Case& c, Random& random) {
  return {.keys = normal_rows(c.dtype, c.tokens, c.head_dim, 1.0, random),
          .values = normal_rows(c.dtype, c.tokens, c.value_dim, 1.0, random),
          .query = normal_rows(NKV_DTYPE_BF16, c.group, c.head_dim, 1.0, random)};
}

// Every key is the same, so all weights are equal and O is the mean of V.
Tensors uniform_weights(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  for (size_t i = 0; i < t.keys.patterns.size(); ++i) {
    t.keys.patterns[i] = t.keys.patterns[i % c.head_dim];
  }
  return t;
}

void set_row(Rows& rows, size_t row, const std::function<double(size_t)>& number) {
  for (size_t c = 0; c < rows.dim; ++c) {
    rows.patterns[row * rows.dim + c] = encode(rows.dtype, number(c));
  }
}

// One key points along every query and takes almost all weight.
Tensors peaked(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  set_row(t.keys, c.tokens / 3, [&](size_t i) { return 3.0 * t.query.at(0, i); });
  for (uint32_t row = 1; row < c.group; ++row) {
    set_row(t.query, row, [&](size_t i) { return t.query.at(0, i) + 0.1 * normal(random); });
  }
  return t;
}

// Logits of about ±deviation with the default scale.
std::function<Tensors(const Case&, Random&)> huge_logits(double deviation) {
  return [=](const Case& c, Random& random) {
    Tensors t = random_tensors(c, random);
    for (uint32_t row = 0; row < c.group; ++row) {
      set_row(t.query, row, [&](size_t) { return deviation * normal(random); });
    }
    return t;
  };
}

// Two keys of logit near 1e5 that differ in one channel's last bit.
Tensors competing(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  set_row(t.query, 0, [&](size_t i) { return 300.0 * t.query.at(0, i); });
  for (uint32_t row = 1; row < c.group; ++row) {
    set_row(t.query, row, [&](size_t i) { return t.query.at(0, i); });
  }
  set_row(t.keys, 100, [&](size_t i) { return t.query.at(0, i) / 10.0; });
  set_row(t.keys, c.tokens - 5, [&](size_t i) { return t.query.at(0, i) / 10.0; });
  // One last bit of the smallest channel moves the logit by about 1.
  size_t smallest = 0;
  for (size_t i = 0; i < c.head_dim; ++i) {
    const double here = std::abs(t.query.at(0, i));
    if (here > 0 && here < std::abs(t.query.at(0, smallest))) smallest = i;
  }
  t.keys.patterns[size_t{100} * c.head_dim + smallest] ^= 1;
  return t;
}

// All keys share a large offset; scores differ only by what is left of their last bits.
Tensors common_offset(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  t.keys = make_rows(c.dtype, c.tokens, c.head_dim,
                     [&](uint32_t, uint32_t) { return 64.0 + normal(random); });
  return t;
}

Tensors alternating_signs(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  t.keys = make_rows(c.dtype, c.tokens, c.head_dim, [&](uint32_t, uint32_t i) {
    return (i % 2 == 0 ? 40.0 : -40.0) + normal(random);
  });
  return t;
}

// One page a thousand times larger than all others, seen at small weight.
Tensors outlier_page(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  const uint32_t first = c.tokens / 2;
  for (uint32_t row = first; row < first + NKV_PAGE_TOKENS; ++row) {
    set_row(t.keys, row, [&](size_t i) {
      return (t.query.at(0, i) < 0 ? 1.0 : -1.0) * 1000.0 * std::abs(normal(random));
    });
  }
  for (uint32_t row = 1; row < c.group; ++row) {
    set_row(t.query, row, [&](size_t i) { return t.query.at(0, i); });
  }
  return t;
}

// Neighbours hold opposite values, so that O is some sixty times smaller than they are.
Tensors cancelling(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  for (uint32_t row = 1; row < c.tokens; row += 2) {
    set_row(t.keys, row, [&](size_t i) { return t.keys.at(row - 1, i) + 0.02 * normal(random); });
    set_row(t.values, row, [&](size_t i) { return -t.values.at(row - 1, i); });
  }
  return t;
}

// Every logit is near 1e5; what tells the tokens apart is in the last channels and of size 1.
Tensors shared_logit(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  const uint32_t free_channels = 8;
  const auto is_free = [&](size_t i) { return i + free_channels >= c.head_dim; };
  t.keys = make_rows(c.dtype, c.tokens, c.head_dim,
                     [&](uint32_t, uint32_t i) { return is_free(i) ? normal(random) : 64.0; });
  t.query = make_rows(NKV_DTYPE_BF16, c.group, c.head_dim, [&](uint32_t, uint32_t i) {
    return is_free(i) ? 4.0 * normal(random) : 150.0;
  });
  return t;
}

// Products of 2.6e4 logits each that cancel in pairs of channels; again size 1 tells.
Tensors cancelling_products(const Case& c, Random& random) {
  Tensors t = shared_logit(c, random);
  const auto flipped = [](uint32_t i) { return i % 2 == 0 ? 1.0 : -1.0; };
  for (uint32_t row = 0; row < c.tokens; ++row) {
    set_row(t.keys, row, [&](size_t i) {
      const double key = t.keys.at(row, i);
      return key == 64.0 ? 1000.0 * flipped(static_cast<uint32_t>(i)) : key;
    });
  }
  for (uint32_t row = 0; row < c.group; ++row) {
    set_row(t.query, row,
            [&](size_t i) { return i + 8 < c.head_dim ? 300.0 : t.query.at(row, i); });
  }
  return t;
}

// Channels of very different size, as real keys have them.
Tensors outlier_channels(const Case& c, Random& random) {
  Tensors t = random_tensors(c, random);
  t.keys = make_rows(c.dtype, c.tokens, c.head_dim, [&](uint32_t, uint32_t i) {
    return normal(random) * std::exp2(i % 16 == 0 ? 6 : -(static_cast<int>(i) % 8));
  });
  return t;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const uint32_t head_dim : {64u, 80u, 96u, 128u, 256u}) {
    for (const uint32_t group : {1u, 4u, 16u}) {
      all.push_back({.name = "random, head_dim " + std::to_string(head_dim),
                     .head_dim = head_dim,
                     .value_dim = head_dim,
                     .group = group,
                     .tokens = 1024,
                     .make = random_tensors});
    }
  }
  for (uint32_t group = 1; group <= 16; ++group) {
    all.push_back({.name = "random, head_dim 64, groups 1 to 16, 256 tokens",
                   .head_dim = 64,
                   .value_dim = 64,
                   .group = group,
                   .tokens = 256,
                   .make = random_tensors});
  }
  all.push_back({.name = "MLA 576/512, 16 rows, values in the keys",
                 .head_dim = 576,
                 .value_dim = 512,
                 .group = 16,
                 .tokens = 1024,
                 .form = {.v_form = NKV_ROW_FORM_NONE},
                 .make = random_tensors});
  const std::pair<uint8_t, const char*> types[] = {
      {NKV_DTYPE_FP16, "fp16"}, {NKV_DTYPE_FP8_E4M3, "fp8 e4m3"}, {NKV_DTYPE_FP8_E5M2, "fp8 e5m2"}};
  for (const auto& [dtype, name] : types) {
    all.push_back({.name = std::string("random, ") + name + " pages",
                   .tokens = 1024,
                   .dtype = dtype,
                   .form = kRawForm,
                   .make = random_tensors});
  }
  all.push_back({.name = "random, int8 pages",
                 .tokens = 1024,
                 .dtype = NKV_DTYPE_INT8,
                 .form = kRawForm,
                 .make =
                     [](const Case& c, Random& random) {
                       Tensors t = random_tensors(c, random);
                       t.keys = normal_rows(c.dtype, c.tokens, c.head_dim, 30.0, random);
                       t.values = normal_rows(c.dtype, c.tokens, c.value_dim, 30.0, random);
                       return t;
                     },
                 .scale = 0.003f});
  all.push_back({.name = "random, bf16 RAW pages", .form = kRawForm, .make = random_tensors});
  all.push_back({.name = "uniform weights", .make = uniform_weights});
  all.push_back({.name = "peaked: one dominant key", .make = peaked});
  all.push_back({.name = "logits of 1e3", .make = huge_logits(1e3)});
  all.push_back({.name = "logits of 1e4", .make = huge_logits(1e4)});
  all.push_back({.name = "logits of 1e5", .make = huge_logits(1e5)});
  all.push_back({.name = "two near-equal logits of 1e5", .make = competing});
  all.push_back({.name = "large common offset in all keys", .make = common_offset});
  all.push_back({.name = "channels of alternating sign", .make = alternating_signs});
  all.push_back({.name = "all logits near 1e5, apart by 1", .make = shared_logit});
  all.push_back(
      {.name = "products of 2.6e4 that cancel to logits of 1", .make = cancelling_products});
  all.push_back({.name = "channels 2^13 apart", .make = outlier_channels});
  all.push_back({.name = "values that cancel", .make = cancelling});
  return all;
}

std::vector<Case> long_cases() {
  constexpr uint32_t kLong = 128 * 1024;
  const auto long_case = [](const char* name, const auto& make) {
    return Case{.name = name,
                .head_dim = 64,
                .value_dim = 64,
                .group = 2,
                .tokens = kLong,
                .form = {},
                .make = make};
  };
  return {long_case("random, 128 Ki tokens", random_tensors),
          long_case("uniform weights, 128 Ki tokens", uniform_weights),
          long_case("one outlier page, 128 Ki tokens", outlier_page),
          long_case("values that cancel, 128 Ki tokens", cancelling)};
}

struct Measured {
  double output;       // Relative to 2^−8.
  double log_sum_exp;  // Relative to the stated tolerance.
};

Measured measure(const Case& c, uint64_t seed) {
  Random random(seed);
  const Tensors t = c.make(c, random);
  const Rows& values = c.form.v_form == NKV_ROW_FORM_NONE ? t.keys : t.values;
  Device device("?memory=256MiB");
  const Sequence sequence = append(device, t.keys, t.values, c.form);
  AttendOptions options{.flags = NKV_ATTEND_FLAG_OUTPUT_BF16, .scale = c.scale};
  const auto reference = reference_attention(t.keys, values, t.query, c.value_dim, options);
  const auto rounded = attend(device, sequence, t.query, c.value_dim, options);
  EXPECT_EQ(rounded.completion.status, NKV_STATUS_OK) << c.name;
  options.flags = 0;
  const auto result = attend(device, sequence, t.query, c.value_dim, options);
  EXPECT_LE(output_error(rounded, reference), kPromised) << c.name;
  EXPECT_LE(log_sum_exp_error(result, reference), 1.0) << c.name;
  return {.output = output_error(result, reference),
          .log_sum_exp = log_sum_exp_error(result, reference)};
}

// Cases of one name share a line.
void measure_all(const std::vector<Case>& cases, uint64_t seeds) {
  std::printf("| input | worst |O - O'| / max|O'|, fp32 output | LSE, part of its tolerance |\n");
  std::printf("|---|---|---|\n");
  Measured worst{};
  for (size_t i = 0; i < cases.size(); ++i) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const Measured measured = measure(cases[i], seed);
      worst.output = std::max(worst.output, measured.output);
      worst.log_sum_exp = std::max(worst.log_sum_exp, measured.log_sum_exp);
    }
    if (i + 1 < cases.size() && cases[i + 1].name == cases[i].name) continue;
    std::printf("| %s | %.1e | %.2f |\n", cases[i].name.c_str(), worst.output, worst.log_sum_exp);
    worst = {};
  }
}

TEST(DenseError, StaysWithinThePromise) { measure_all(cases(), 2); }

TEST(DenseError, StaysWithinThePromiseAtLength) { measure_all(long_cases(), 1); }

}  // namespace
}  // namespace nearkv::test

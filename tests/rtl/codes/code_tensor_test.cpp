// nkv_code_tensor against the model's codes: tensors of every dimension and type, with gains and
// without, random ones and those at the ends of the arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vnkv_code_tensor.h"
#include "code_tables.hpp"
#include "element.hpp"
#include "nkv_abi.h"
#include "row_codes.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kTokens = NKV_PAGE_TOKENS;
constexpr unsigned kChannels = 128;
constexpr unsigned kPatience = 4000;
constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                   NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8};

/// A tensor of a page, and how it is to be coded.
struct Tensor {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  unsigned dim = kChannels;
  bool is_value = false;
  int set = 0;
  std::vector<int8_t> gains = {};            ///< Per channel; none for values.
  std::vector<std::uint16_t> elements = {};  ///< [PAGE_TOKENS][dim]

  [[nodiscard]] std::vector<model::Number> numbers() const {
    const size_t size = nkv_element_bytes(dtype);
    std::vector<std::byte> bytes(elements.size() * size);
    for (size_t i = 0; i < elements.size(); ++i) {
      std::memcpy(bytes.data() + i * size, &elements[i], size);
    }
    return model::decode_elements(dtype, bytes, elements.size());
  }

  [[nodiscard]] const model::CodeForm& form() const {
    return is_value ? model::kValueCodes : model::kKeyCodes;
  }
};

/// X of section 11.3, by its words.
int top_of(const Tensor& tensor) {
  bool any = false;
  int top = 0;
  const auto numbers = tensor.numbers();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].significand == 0) continue;
    const int gain = tensor.is_value ? 0 : tensor.gains[i % tensor.dim];
    const std::int64_t product =
        numbers[i].significand * model::octave_table()[static_cast<size_t>(gain & 15)];
    const int own = numbers[i].exponent + (gain >> 4) + (product >= std::int64_t{1} << 35 ? 1 : 0);
    top = any ? std::max(top, own) : own;
    any = true;
  }
  return top;
}

/// What the unit gives of a tensor.
struct Given {
  model::RowCodes codes;
  std::array<unsigned, 4> means_seen = {};
  bool is_value = false;
};

class Coder : public Simulation<Vnkv_code_tensor> {
 public:
  Coder() {
    reset();
    (*this)->keys_free_i = 1;
    (*this)->values_free_i = 1;
  }

  /// Codes all of them, one after the other without waiting; in their order.
  std::vector<Given> encode(const std::vector<Tensor>& tensors, test::Random& random,
                            unsigned pace) {
    std::vector<Given> given;
    size_t started = 0;
    unsigned waited = 0;
    while (given.size() < tensors.size() && waited++ < kPatience) {
      (*this)->dtype_i = tensors[std::min(started, tensors.size() - 1)].dtype;
      (*this)->keys_free_i = is_willing(random, pace);
      (*this)->values_free_i = is_willing(random, pace);
      (*this)->job_valid_i = started < tensors.size() && !reads_;
      if (started < tensors.size()) set_job(tensors[started]);
      settle();
      if ((*this)->job_valid_i && (*this)->job_ready_o) reads_ = true;
      const Tensor& reading = tensors[std::min(started, tensors.size() - 1)];
      // A word follows its address by a cycle.
      const bool reads = (*this)->read_o;
      const unsigned row = (*this)->read_row_o;
      const unsigned index = (*this)->read_index_o;
      const bool ends = (*this)->job_read_o;
      set_gains(gains_of_);
      observe(tensors, &given, &waited);
      tick();
      if (reads) set_word(reading, row, index, random);
      if (reads) gains_of_ = &tensors[started];
      if (ends) {
        ++started;
        reads_ = false;
      }
    }
    EXPECT_EQ(given.size(), tensors.size()) << "codes did not come";
    return given;
  }

  /// Is `cycles` cycles into a tensor, then cleared.
  void start_and_clear(const Tensor& tensor, unsigned cycles, test::Random& random) {
    set_job(tensor);
    (*this)->dtype_i = tensor.dtype;
    (*this)->job_valid_i = 1;
    for (unsigned i = 0; i < cycles; ++i) {
      settle();
      const bool reads = (*this)->read_o;
      const unsigned row = (*this)->read_row_o;
      const unsigned index = (*this)->read_index_o;
      set_gains(&tensor);
      tick();
      (*this)->job_valid_i = 0;
      if (reads) set_word(tensor, row, index, random);
    }
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
  }

 private:
  void set_job(const Tensor& tensor) {
    (*this)->job_is_value_i = tensor.is_value;
    (*this)->job_of_keys_i = 0;
    (*this)->job_dim_i = static_cast<std::uint8_t>(tensor.dim);
    (*this)->job_top_i = static_cast<std::uint16_t>(top_of(tensor)) & 0x3ff;
    (*this)->job_sign_set_i = static_cast<std::uint8_t>(tensor.set);
  }

  /// Lanes beyond the row's end are another row's or anything.
  void set_word(const Tensor& tensor, unsigned row, unsigned index, test::Random& random) {
    for (unsigned i = 0; i < kLanes; ++i) {
      const unsigned channel = index * kLanes + i;
      (*this)->word_i[i] = channel < tensor.dim
                               ? tensor.elements[size_t{row} * tensor.dim + channel]
                               : static_cast<std::uint16_t>(random());
    }
  }

  void set_gains(const Tensor* tensor) {
    for (unsigned i = 0; i < kLanes; ++i) {
      const unsigned channel = (*this)->gain_index_o * kLanes + i;
      const bool has = tensor != nullptr && !tensor->is_value && channel < tensor->dim;
      (*this)->gain_i[i] = static_cast<std::uint8_t>(has ? tensor->gains[channel] : 77);
    }
    settle();
  }

  void observe(const std::vector<Tensor>& tensors, std::vector<Given>* given, unsigned* waited) {
    if ((*this)->begin_o) {
      *waited = 0;
      coding_ = Given{};
      cells_ = 0;
      coding_.is_value = (*this)->job_is_value_o;
      coding_.codes.mean.resize((*this)->job_dim_o);
      coding_.codes.cell.resize(size_t{kTokens} * (*this)->job_dim_o);
    }
    const unsigned dim = (*this)->job_dim_o;
    if ((*this)->mean_valid_o) {
      ++coding_.means_seen[(*this)->mean_index_o];
      for (unsigned i = 0; i < kLanes && (*this)->mean_index_o * kLanes + i < dim; ++i) {
        coding_.codes.mean[(*this)->mean_index_o * kLanes + i] =
            static_cast<int8_t>((*this)->mean_o[i]);
      }
    }
    if ((*this)->cells_valid_o) {
      const unsigned words = (dim + kLanes - 1) / kLanes;
      ASSERT_EQ((*this)->cells_index_o, cells_ % words);
      const size_t row = cells_ / words;
      for (unsigned i = 0; i < kLanes && (*this)->cells_index_o * kLanes + i < dim; ++i) {
        coding_.codes.cell.at(row * dim + (*this)->cells_index_o * kLanes + i) = (*this)->cell_o[i];
      }
      ++cells_;
    }
    if ((*this)->done_o) {
      ASSERT_LT(given->size(), tensors.size());
      coding_.codes.mean_power = static_cast<std::int16_t>((*this)->powers_mean_power_o);
      coding_.codes.top = static_cast<std::int16_t>((*this)->powers_top_o);
      for (unsigned token = 0; token < kTokens; ++token) {
        coding_.codes.factor[token] = (*this)->factors_o[token / 8] >> token % 8 * 4 & 15;
      }
      given->push_back(coding_);
    }
  }

  bool reads_ = false;
  const Tensor* gains_of_ = nullptr;
  Given coding_;
  size_t cells_ = 0;
};

void expect_codes(Coder& coder, const std::vector<Tensor>& tensors, test::Random& random,
                  unsigned pace) {
  const std::vector<Given> given = coder.encode(tensors, random, pace);
  ASSERT_EQ(given.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    SCOPED_TRACE("tensor " + std::to_string(i) + ", type " + std::to_string(tensor.dtype) + ", " +
                 std::to_string(tensor.dim) + " channels, set " + std::to_string(tensor.set) +
                 (tensor.is_value ? ", values" : ", keys"));
    const model::RowCodes expected =
        model::encode_rows(tensor.numbers(), tensor.is_value ? std::vector<int8_t>{} : tensor.gains,
                           tensor.set, tensor.form());
    const model::RowCodes& codes = given[i].codes;
    ASSERT_EQ(given[i].is_value, tensor.is_value);
    ASSERT_EQ(codes.mean_power, expected.mean_power);
    ASSERT_EQ(codes.mean, expected.mean);
    ASSERT_EQ(codes.cell, expected.cell);
    ASSERT_EQ(codes.top, expected.top);
    ASSERT_EQ(codes.factor, expected.factor);
    for (unsigned word = 0; word < 4; ++word) {
      ASSERT_EQ(given[i].means_seen[word], word * kLanes < tensor.dim ? 1u : 0u);
    }
  }
}

Tensor empty_tensor(test::Random& random, std::uint8_t dtype, unsigned dim, bool is_value) {
  Tensor tensor{.dtype = dtype, .dim = dim, .is_value = is_value};
  tensor.set = static_cast<int>(random() % NKV_SIGN_SETS);
  tensor.gains.resize(dim);
  tensor.elements.resize(size_t{kTokens} * dim);
  return tensor;
}

std::uint16_t bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

/// Any bits, and any gains.
Tensor any_tensor(test::Random& random, std::uint8_t dtype, unsigned dim, bool is_value) {
  Tensor tensor = empty_tensor(random, dtype, dim, is_value);
  for (auto& gain : tensor.gains) gain = static_cast<int8_t>(random());
  const unsigned bits = nkv_element_bytes(dtype) == 2 ? 0xffff : 0xff;
  for (auto& element : tensor.elements) element = static_cast<std::uint16_t>(random() & bits);
  return tensor;
}

/// As models have them: a mean per channel and a spread, in bf16; gains of an octave or two.
Tensor likely_tensor(test::Random& random, unsigned dim, bool is_value) {
  Tensor tensor = empty_tensor(random, NKV_DTYPE_BF16, dim, is_value);
  std::normal_distribution<float> normal;
  std::vector<float> means(dim);
  for (auto& mean : means) mean = 3 * normal(random);
  for (auto& gain : tensor.gains) gain = static_cast<int8_t>(static_cast<int>(random() % 49) - 24);
  for (size_t i = 0; i < tensor.elements.size(); ++i) {
    tensor.elements[i] = bf16(means[i % dim] + normal(random));
  }
  return tensor;
}

TEST(CodeTensorTest, EveryDimensionOfEveryType) {
  test::Random random = test::case_random(1);
  Coder coder;
  for (const std::uint8_t dtype : kTypes) {
    std::vector<Tensor> tensors;
    for (unsigned dim = 16; dim <= kChannels; dim += 16) {
      tensors.push_back(any_tensor(random, dtype, dim, false));
      tensors.push_back(any_tensor(random, dtype, 144 - dim, true));
    }
    expect_codes(coder, tensors, random, kPaces[dtype % 3]);
    if (HasFatalFailure()) return;
  }
}

TEST(CodeTensorTest, LikelyRows) {
  test::Random random = test::case_random(2);
  Coder coder;
  std::vector<Tensor> tensors;
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned dim = 16; dim <= kChannels; dim += 16) {
      tensors.push_back(likely_tensor(random, dim, i % 2 == 1));
    }
  }
  expect_codes(coder, tensors, random, 8);
}

TEST(CodeTensorTest, EverySignSet) {
  test::Random random = test::case_random(3);
  Coder coder;
  std::vector<Tensor> tensors;
  for (int set = 0; set < NKV_SIGN_SETS; ++set) {
    tensors.push_back(likely_tensor(random, kChannels, false));
    tensors.back().set = set;
  }
  expect_codes(coder, tensors, random, 8);
}

TEST(CodeTensorTest, EndsOfTheArithmetic) {
  test::Random random = test::case_random(4);
  Coder coder;
  std::vector<Tensor> tensors;
  for (const unsigned dim : {16u, 64u, 96u, 112u, 128u}) {
    for (const bool is_value : {false, true}) {
      const Tensor zeros = empty_tensor(random, NKV_DTYPE_BF16, dim, is_value);
      tensors.push_back(zeros);
      Tensor one = zeros;  // One element that is not zero, anywhere.
      one.elements[random() % one.elements.size()] = bf16(-1.5f);
      tensors.push_back(one);
      Tensor same = zeros;  // Tokens that are all the same, so that no row has a residual.
      for (unsigned i = 0; i < same.elements.size(); ++i) {
        same.elements[i] = bf16(static_cast<float>(i % dim) - 9.0f);
      }
      tensors.push_back(same);
      Tensor outlier = likely_tensor(random, dim, is_value);  // All others far below it.
      outlier.elements[random() % outlier.elements.size()] = bf16(1e6f);
      tensors.push_back(outlier);
      Tensor broken = likely_tensor(random, dim, is_value);  // A row of NaN, one of infinities.
      for (unsigned c = 0; c < dim; ++c) {
        broken.elements[size_t{5} * dim + c] = 0x7fc1;
        broken.elements[size_t{63} * dim + c] = 0xff80;
      }
      tensors.push_back(broken);
      Tensor nothing = zeros;  // Nothing but such.
      std::ranges::fill(nothing.elements, std::uint16_t{0xff80});
      tensors.push_back(nothing);
      Tensor largest = any_tensor(random, NKV_DTYPE_BF16, dim, is_value);  // And largest gains.
      for (unsigned i = 0; i < largest.elements.size(); ++i) {
        largest.elements[i] = static_cast<std::uint16_t>(0x7f7f | (random() % 2) << 15);
        largest.gains[i % dim] = 127;
      }
      tensors.push_back(largest);
      Tensor extreme = largest;  // Means at the ends of their range: all of one sign.
      for (unsigned i = 0; i < extreme.elements.size(); ++i) {
        extreme.elements[i] = (i % dim) % 2 == 0 ? 0x7f7f : 0xff7f;
      }
      tensors.push_back(extreme);
      Tensor smallest = zeros;
      for (unsigned i = 0; i < smallest.elements.size(); ++i) {
        smallest.elements[i] = static_cast<std::uint16_t>(0x0080 | (random() % 2) << 15);
        smallest.gains[i % dim] = -128;
      }
      tensors.push_back(smallest);
      Tensor jumps = zeros;  // One token goes the other way: the longest residuals.
      for (unsigned i = 0; i < jumps.elements.size(); ++i) {
        jumps.elements[i] = i / dim == 17 ? 0xbf80 : 0x3f80;
      }
      tensors.push_back(jumps);
      Tensor pattern = zeros;  // A row that a transform gathers in one channel.
      for (unsigned i = 0; i < pattern.elements.size(); ++i) {
        pattern.elements[i] = bf16(model::is_minus(pattern.set, i % dim) ? -1.0f : 1.0f);
        if (i / dim % 2 == 1) pattern.elements[i] ^= 0x8000;
      }
      tensors.push_back(pattern);
    }
  }
  expect_codes(coder, tensors, random, 5);
}

TEST(CodeTensorTest, ForgetsWhatWasUnderWay) {
  test::Random random = test::case_random(5);
  for (unsigned stop = 3; stop < 700; stop += 37) {
    Coder coder;
    coder.start_and_clear(likely_tensor(random, 128, false), stop, random);
    expect_codes(coder, {likely_tensor(random, 96, true), likely_tensor(random, 48, false)}, random,
                 8);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

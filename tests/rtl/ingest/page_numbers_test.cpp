// nkv_page_numbers against the model's numbers: tensors of every dimension and type, any patterns,
// values that are rows of their own or channels of the keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "Vnkv_page_numbers.h"
#include "element.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 10;
constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                   NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8};

/// What a header says of numbers.
struct Said {
  int k_exponent = 0;
  int v_exponent = 0;
  std::uint64_t nonfinite = 0;

  bool operator==(const Said&) const = default;
};

/// Rows of one tensor, PAGE_TOKENS of them, as a source has them.
struct Tensor {
  std::uint8_t dtype;
  unsigned dim;
  std::vector<std::byte> bytes;

  Tensor(std::uint8_t type, unsigned channels)
      : dtype(type),
        dim(channels),
        bytes(size_t{NKV_PAGE_TOKENS} * channels * nkv_element_bytes(type)) {}

  [[nodiscard]] std::uint16_t element(size_t index) const {
    const size_t size = nkv_element_bytes(dtype);
    auto bits = static_cast<std::uint16_t>(bytes[index * size]);
    if (size == 2)
      bits |= static_cast<std::uint16_t>(static_cast<unsigned>(bytes[index * 2 + 1]) << 8);
    return bits;
  }

  [[nodiscard]] std::vector<model::Number> numbers() const {
    return model::decode_elements(dtype, bytes, size_t{NKV_PAGE_TOKENS} * dim);
  }
};

/// Any bits; with `scarce` most elements are zero, so that a row seldom has what is rare.
Tensor any_tensor(test::Random& random, std::uint8_t dtype, unsigned dim, bool scarce) {
  Tensor tensor(dtype, dim);
  const size_t size = nkv_element_bytes(dtype);
  for (size_t at = 0; at < tensor.bytes.size(); at += size) {
    if (scarce && random() % 512 != 0) continue;
    for (size_t byte = at; byte < at + size; ++byte) {
      tensor.bytes[byte] = static_cast<std::byte>(random());
    }
  }
  return tensor;
}

/// What the model says: of `values`, or where they are none of the keys' first channels.
Said models(const Tensor& keys, const Tensor* values, unsigned value_dim) {
  const std::vector<model::Number> numbers = keys.numbers();
  std::vector<model::Number> leading;
  Said said{.k_exponent = model::largest_exponent(numbers)};
  for (size_t element = 0; element < numbers.size(); ++element) {
    if (!numbers[element].finite) said.nonfinite |= std::uint64_t{1} << element / keys.dim;
    if (element % keys.dim < value_dim) leading.push_back(numbers[element]);
  }
  said.v_exponent = model::largest_exponent(values != nullptr ? values->numbers() : leading);
  return said;
}

class Numbers : public Simulation<Vnkv_page_numbers> {
 public:
  Numbers() { reset(); }

  void shape(std::uint8_t dtype, unsigned head_dim, unsigned value_dim, bool has_values) {
    (*this)->dtype_i = dtype;
    (*this)->head_dim_i = static_cast<std::uint8_t>(head_dim);
    (*this)->value_dim_i = static_cast<std::uint8_t>(value_dim);
    (*this)->has_values_i = has_values;
  }

  void send(const Tensor& tensor, bool keys, test::Random& random, unsigned pace,
            unsigned rows = NKV_PAGE_TOKENS) {
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned first = 0; first < tensor.dim; first += kLanes) {
        while (!is_willing(random, pace)) tick();
        for (unsigned i = 0; i < kLanes; ++i) {
          (*this)->word_i[i] =
              first + i < tensor.dim ? tensor.element(size_t{row} * tensor.dim + first + i) : 0;
        }
        (*this)->keys_valid_i = keys;
        (*this)->values_valid_i = !keys;
        tick();
        (*this)->keys_valid_i = 0;
        (*this)->values_valid_i = 0;
      }
    }
  }

  void clear() {
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
  }

  Said said() {
    return {.k_exponent = (*this)->k_exponent_o,
            .v_exponent = (*this)->v_exponent_o,
            .nonfinite = (*this)->nonfinite_o};
  }
};

/// A page's values, if they are rows, then its keys, without a gap.
void expect_page(Numbers& numbers, const Tensor& keys, const Tensor* values, unsigned value_dim,
                 test::Random& random, unsigned pace) {
  numbers.shape(keys.dtype, keys.dim, value_dim, values != nullptr);
  if (values != nullptr) numbers.send(*values, false, random, pace);
  numbers.send(keys, true, random, pace);
  numbers.ticks(kLatency - 1);
  const Said expected = models(keys, values, value_dim);
  const Said said = numbers.said();
  ASSERT_EQ(said.k_exponent, expected.k_exponent);
  ASSERT_EQ(said.v_exponent, expected.v_exponent);
  ASSERT_EQ(said.nonfinite, expected.nonfinite);
}

TEST(PageNumbersTest, EveryDimensionOfEveryType) {
  test::Random random = test::case_random(1);
  Numbers numbers;
  for (const std::uint8_t dtype : kTypes) {
    for (unsigned dim = 16; dim <= 128; dim += 16) {
      for (const bool scarce : {false, true}) {
        const unsigned value_dim = 144 - dim;
        const Tensor keys = any_tensor(random, dtype, dim, scarce);
        const Tensor values = any_tensor(random, dtype, value_dim, scarce);
        SCOPED_TRACE("type " + std::to_string(dtype) + ", " + std::to_string(dim) + " channels");
        expect_page(numbers, keys, &values, value_dim, random, kPaces[dim / 16 % 3]);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(PageNumbersTest, ValuesThatAreChannelsOfTheKeys) {
  test::Random random = test::case_random(2);
  Numbers numbers;
  for (unsigned value_dim = 0; value_dim <= 112; value_dim += 16) {
    for (const bool scarce : {false, true}) {
      const Tensor keys = any_tensor(random, NKV_DTYPE_FP16, 112, scarce);
      SCOPED_TRACE(std::to_string(value_dim) + " channels of values");
      expect_page(numbers, keys, nullptr, value_dim, random, 8);
      if (HasFatalFailure()) return;
    }
  }
}

// One element alone, at every place of a word and in every row.
TEST(PageNumbersTest, OneElementAnywhere) {
  constexpr std::uint16_t kNan = 0x7FC0;
  constexpr std::uint16_t kLargest = 0x7F7F;
  test::Random random = test::case_random(3);
  Numbers numbers;
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
    for (const std::uint16_t bits : {kNan, kLargest}) {
      Tensor keys(NKV_DTYPE_BF16, 96);
      const size_t at = 2 * (size_t{token} * keys.dim + (token * 37 + bits) % keys.dim);
      keys.bytes[at] = static_cast<std::byte>(bits);
      keys.bytes[at + 1] = static_cast<std::byte>(bits >> 8);
      SCOPED_TRACE("token " + std::to_string(token));
      expect_page(numbers, keys, nullptr, 48, random, 8);
      if (HasFatalFailure()) return;
    }
  }
}

// The next page's values come while what was said of this page's keys is still wanted.
TEST(PageNumbersTest, ValuesLeaveWhatWasSaidOfKeys) {
  test::Random random = test::case_random(4);
  Numbers numbers;
  const Tensor keys = any_tensor(random, NKV_DTYPE_BF16, 64, true);
  const Tensor values = any_tensor(random, NKV_DTYPE_BF16, 64, true);
  expect_page(numbers, keys, &values, 64, random, 8);
  const Said before = numbers.said();
  const Tensor next = any_tensor(random, NKV_DTYPE_BF16, 64, false);
  numbers.send(next, false, random, 8);
  numbers.ticks(kLatency - 1);
  EXPECT_EQ(numbers.said().k_exponent, before.k_exponent);
  EXPECT_EQ(numbers.said().nonfinite, before.nonfinite);
  EXPECT_EQ(numbers.said().v_exponent, model::largest_exponent(next.numbers()));
}

TEST(PageNumbersTest, ClearAndResetForgetATensorUnderWay) {
  test::Random random = test::case_random(5);
  Numbers numbers;
  for (const bool resets : {false, true}) {
    for (const unsigned rows : {1U, 20U, 63U}) {
      const Tensor other = any_tensor(random, NKV_DTYPE_BF16, 128, false);
      numbers.shape(NKV_DTYPE_BF16, 128, 128, true);
      numbers.send(other, rows % 2 == 0, random, 8, rows);
      resets ? numbers.reset() : numbers.clear();
      const Tensor keys = any_tensor(random, NKV_DTYPE_BF16, 48, true);
      const Tensor values = any_tensor(random, NKV_DTYPE_BF16, 48, true);
      expect_page(numbers, keys, &values, 48, random, 8);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test

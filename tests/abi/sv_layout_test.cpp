// One structure, two languages: what C writes into memory, SystemVerilog must find in its packed
// structs, for every element of every structure; and both must answer the same questions alike.
#include <gtest/gtest.h>
#include <verilated.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "Vcontract_probe.h"
#include "contract_rules.hpp"
#include "nkv_abi.h"

namespace nearkv::abi_test {
namespace {

constexpr std::size_t kCommandBytes = 64;

struct Structures {
#define STRUCT(name) nkv_##name name;
#include "structs.inc"
#undef STRUCT
};

class SvLayout : public ::testing::Test {
 protected:
  /// Puts the structures, byte for byte, on the inputs of the same names.
  void apply(const Structures& structures) {
#define STRUCT(name)                                                  \
  static_assert(sizeof(probe_->name##_i) == sizeof(structures.name)); \
  std::memcpy(&probe_->name##_i, &structures.name, sizeof(structures.name));
#include "structs.inc"
#undef STRUCT
    probe_->eval();
  }

  VerilatedContext context_;
  std::unique_ptr<Vcontract_probe> probe_ = std::make_unique<Vcontract_probe>(&context_);
  Random random_{1};
};

/// One element of one structure, in both languages. A table of them, because code for each would
/// take the compiler minutes.
struct Element {
  const char* name;
  std::byte* in_c;             ///< Where the compiler puts it.
  const std::byte* at_offset;  ///< Where the contract says that it is.
  std::size_t c_bytes;
  std::size_t bits;
  const void* port;  ///< The probe's output.
  std::size_t port_bytes;

  [[nodiscard]] static std::uint64_t read(const void* place, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, place, bytes);
    return value;
  }
};

std::vector<Element> elements_of(Structures& structures, const Vcontract_probe& probe) {
#define FIELD(structure, element, port, offset_bytes, bits)                    \
  {#structure "." #element,                                                    \
   reinterpret_cast<std::byte*>(&structures.structure.element),                \
   reinterpret_cast<const std::byte*>(&structures.structure) + (offset_bytes), \
   sizeof(structures.structure.element),                                       \
   bits,                                                                       \
   &probe.port,                                                                \
   sizeof(probe.port)},
  return {
#include "fields.inc"
  };
#undef FIELD
}

TEST_F(SvLayout, EveryElementOfEveryStructureIsWhereCPutIt) {
  auto structures = std::make_unique<Structures>();
  const std::vector<Element> elements = elements_of(*structures, *probe_);
  EXPECT_GT(elements.size(), 100U);
  for (int round = 0; round < 20; ++round) {
    *structures = {};
    std::vector<std::uint64_t> patterns;
    for (const Element& element : elements) {
      ASSERT_EQ(element.c_bytes * 8, element.bits) << element.name;
      patterns.push_back(random_() >> (64 - element.bits));
      std::memcpy(element.in_c, &patterns.back(), element.c_bytes);
    }
    apply(*structures);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Element& element = elements[i];
      EXPECT_EQ(Element::read(element.at_offset, element.c_bytes), patterns[i])
          << element.name << " in C";
      EXPECT_EQ(Element::read(element.port, element.port_bytes), patterns[i])
          << element.name << " in SystemVerilog";
    }
  }
}

TEST_F(SvLayout, CheckersAgreeWithThoseOfC) {
  int accepted = 0;
  for (const Rule& rule : rules_of("")) {
    std::vector<std::uint64_t> values = rule.bad_values(random_);
    values.insert(values.end(), {rule.min, rule.max, random_() & rule.largest()});
    for (const std::uint64_t value : values) {
      std::array<std::byte, kCommandBytes> bytes{};
      fill_with_good_values(rule.command, bytes, random_);
      rule.write(bytes, random_() % rule.count, value);
      Structures structures{};
#define COMMAND(name)                                           \
  if (rule.command == #name) {                                  \
    std::memcpy(&structures.name, bytes.data(), kCommandBytes); \
  }
#include "commands.inc"
#undef COMMAND
      apply(structures);
#define COMMAND(name)                                                                      \
  if (rule.command == #name) {                                                             \
    std::uint64_t detail = 0;                                                              \
    const std::uint8_t status = nkv_check_##name(&structures.name, &detail);               \
    ASSERT_EQ(probe_->name##_status_o, status) << #name "." << rule.field << " " << value; \
    ASSERT_EQ(probe_->name##_detail_o, detail) << #name "." << rule.field << " " << value; \
    accepted += status == NKV_STATUS_OK ? 1 : 0;                                           \
  }
#include "commands.inc"
#undef COMMAND
    }
  }
  EXPECT_GT(accepted, 100) << "good commands must be among those compared";
}

TEST_F(SvLayout, PageLayoutAgreesWithThatOfC) {
  for (int round = 0; round < 20000; ++round) {
    nkv_page_shape shape{};
    shape.k_form = static_cast<std::uint8_t>(random_() % 4);
    shape.v_form = static_cast<std::uint8_t>(random_() % 4);
    shape.dtype = static_cast<std::uint8_t>(random_() % 8);
    shape.flags = static_cast<std::uint8_t>(random_());
    shape.head_dim = static_cast<std::uint16_t>(random_() >> random_() % 64);
    shape.value_dim = static_cast<std::uint16_t>(random_() >> random_() % 64);
    probe_->shape_k_form_i = shape.k_form;
    probe_->shape_v_form_i = shape.v_form;
    probe_->shape_dtype_i = shape.dtype;
    probe_->shape_flags_i = shape.flags;
    probe_->shape_head_dim_i = shape.head_dim;
    probe_->shape_value_dim_i = shape.value_dim;
    probe_->eval();
    nkv_page_layout layout;
    nkv_lay_out_page(&shape, &layout);
    for (std::size_t array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      ASSERT_EQ(probe_->layout_bytes_o[array], layout.bytes[array]) << "array " << array;
      ASSERT_EQ(probe_->layout_offset_o[array], layout.offset[array]) << "array " << array;
    }
    ASSERT_EQ(probe_->layout_total_bytes_o, layout.total_bytes);
  }
}

}  // namespace
}  // namespace nearkv::abi_test

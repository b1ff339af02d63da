// The kernel `hotness` against the sketch that the RTL's monitor is tested against.
#include "kernels.hpp"
#include "monitor/accesses.hpp"
#include "monitor/sketch.hpp"
#include "support/seed.hpp"

namespace nearkv::opencl_test {
namespace {

using rtl_test::some_units;
using rtl_test::Units;

constexpr std::size_t kCells = rtl_test::kSketchRows << rtl_test::kPlaceBits;

// Sketches on the device, each beside its model.
class HotnessTest : public KernelsTest {
 protected:
  void begin(std::size_t sketches) {
    expected_.assign(sketches, {});
    cells_ = runtime_->zeros<std::uint16_t>(sketches * kCells);
  }

  /// Accesses of each sketch, at once.
  void expect_sketches(const std::vector<Units>& accesses, unsigned threshold) {
    Units units;
    std::vector<std::uint32_t> unit_at{0};
    for (const Units& of_sketch : accesses) {
      units.insert(units.end(), of_sketch.begin(), of_sketch.end());
      unit_at.push_back(static_cast<std::uint32_t>(units.size()));
    }
    const cl::Buffer hot = runtime_->allocate(units.size() * sizeof(rtl_test::Hot));
    const cl::Buffer hot_counts = runtime_->allocate(accesses.size() * sizeof(std::uint32_t));
    runtime_->run("hotness", cl::NDRange(opencl::in_groups(accesses.size())),
                  runtime_->upload<std::uint32_t>(units), runtime_->upload<std::uint32_t>(unit_at),
                  static_cast<cl_uint>(accesses.size()), cl_uint{threshold}, cells_, hot,
                  hot_counts);
    const auto found = downloaded<rtl_test::Hot>(hot, units.size());
    const auto counts = downloaded<std::uint32_t>(hot_counts, accesses.size());
    for (std::size_t sketch = 0; sketch < accesses.size(); ++sketch) {
      std::vector<rtl_test::Hot> expected;
      for (const std::uint32_t unit : accesses[sketch]) {
        const auto became = expected_[sketch].access(unit, threshold);
        if (became) expected.push_back(*became);
      }
      ASSERT_EQ(counts[sketch], expected.size()) << "sketch " << sketch;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), found.begin() + unit_at[sketch]))
          << "sketch " << sketch;
    }
  }

 private:
  std::vector<rtl_test::Sketch> expected_;
  cl::Buffer cells_;
};

TEST_F(HotnessTest, CountsFromCallToCallInSketchesOfTheirOwn) {
  test::Random random = test::case_random(1);
  begin(3);
  for (unsigned call = 0; call < 12; ++call) {
    SCOPED_TRACE(call);
    const Units few = some_units(call % 5, 3, random);
    expect_sketches(
        {some_units(20000, call % 22, random), few, some_units(7000, (call + 7) % 22, random)},
        1 + call % 5 * 7);
    if (HasFatalFailure()) return;
  }
}

TEST_F(HotnessTest, CountsStickAtTheLargest) {
  begin(1);
  expect_sketches({Units(20000, 5)}, 16383);
  expect_sketches({Units(100, 5)}, 16383);
}

}  // namespace
}  // namespace nearkv::opencl_test

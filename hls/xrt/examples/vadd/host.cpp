// An ordinary XRT program: c = a + b on the card. Nothing in it knows of emulation.
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

int main(int count, char** arguments) try {
  if (count < 2) {
    std::cerr << "usage: vadd XCLBIN [WORDS]\n";
    return 2;
  }
  const auto words = static_cast<std::uint32_t>(count > 2 ? std::stoul(arguments[2]) : 4096);
  const std::size_t bytes = std::max<std::size_t>(words * sizeof(std::uint32_t), 4096);

  xrt::device device(0);
  const auto uuid = device.load_xclbin(arguments[1]);
  xrt::kernel vadd(device, uuid, "vadd");
  xrt::bo a(device, bytes, vadd.group_id(0));
  xrt::bo b(device, bytes, vadd.group_id(1));
  xrt::bo c(device, bytes, vadd.group_id(2));
  auto* const a_words = a.map<std::uint32_t*>();
  auto* const b_words = b.map<std::uint32_t*>();
  auto* const c_words = c.map<std::uint32_t*>();
  for (std::uint32_t i = 0; i < words; ++i) {
    a_words[i] = i;
    b_words[i] = 3 * i + 1;
  }
  a.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  b.sync(XCL_BO_SYNC_BO_TO_DEVICE);

  auto run = vadd(a, b, c, words);
  run.wait();

  c.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  for (std::uint32_t i = 0; i < words; ++i) {
    if (c_words[i] == 4 * i + 1) continue;
    std::cerr << "c[" << i << "] is " << c_words[i] << ", not " << 4 * i + 1 << '\n';
    return 1;
  }
  std::cout << words << " sums are right\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

// An ordinary XRT program with several ways to use a card; test_emulation.py runs it.
#include <experimental/xrt_ip.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kWords = 3000;
constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);

void require(bool holds, const std::string& text) {
  if (!holds) throw std::runtime_error(text);
}

struct Sum {
  xrt::bo a, b, c;

  Sum(const xrt::device& device, const xrt::kernel& kernel, xrt::bo::flags inputs,
      xrt::bo::flags output)
      : a(device, kBytes, inputs, kernel.group_id(0)),
        b(device, kBytes, inputs, kernel.group_id(1)),
        c(device, kBytes, output, kernel.group_id(2)) {}

  void fill(std::uint32_t factor) {
    auto* const x = a.map<std::uint32_t*>();
    auto* const y = b.map<std::uint32_t*>();
    for (std::uint32_t i = 0; i < kWords; ++i) {
      x[i] = i;
      y[i] = factor * i;
    }
  }
  void check(std::uint32_t factor) {
    const auto* const z = c.map<const std::uint32_t*>();
    for (std::uint32_t i = 0; i < kWords; ++i) {
      require(z[i] == (factor + 1) * i,
              "word " + std::to_string(i) + " is " + std::to_string(z[i]));
    }
  }
};

/// Buffers in host memory, which the card reads and writes there: nothing is copied.
void use_host_memory(const xrt::device& device, const xrt::uuid& uuid) {
  xrt::kernel vadd(device, uuid, "vadd:{vadd_2}");
  Sum sum(device, vadd, xrt::bo::flags::host_only, xrt::bo::flags::host_only);
  sum.fill(7);
  vadd(sum.a, sum.b, sum.c, kWords).wait();
  sum.check(7);
}

/// Buffers of the card that the host has mapped: nothing is copied either.
void use_shared_memory(const xrt::device& device, const xrt::uuid& uuid) {
  xrt::kernel vadd(device, uuid, "vadd:{vadd_1}");
  Sum sum(device, vadd, xrt::bo::flags::p2p, xrt::bo::flags::p2p);
  sum.fill(5);
  vadd(sum.a, sum.b, sum.c, kWords).wait();
  sum.check(5);
}

/// Two compute units at once, each with banks of its own, several runs each.
void use_two_units(const xrt::device& device, const xrt::uuid& uuid) {
  std::array<xrt::kernel, 2> kernels{xrt::kernel(device, uuid, "vadd:{vadd_1}"),
                                     xrt::kernel(device, uuid, "vadd:{vadd_2}")};
  const auto normal = xrt::bo::flags::normal;
  std::array<Sum, 2> sums{Sum(device, kernels[0], normal, normal),
                          Sum(device, kernels[1], normal, normal)};
  for (std::uint32_t round = 0; round < 5; ++round) {
    std::vector<xrt::run> runs;
    for (std::size_t i = 0; i < 2; ++i) {
      Sum& sum = sums[i];
      sum.fill(round + static_cast<std::uint32_t>(i));
      sum.a.sync(XCL_BO_SYNC_BO_TO_DEVICE);
      sum.b.sync(XCL_BO_SYNC_BO_TO_DEVICE);
      runs.push_back(kernels[i](sum.a, sum.b, sum.c, kWords));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      runs[i].wait();
      sums[i].c.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
      sums[i].check(round + static_cast<std::uint32_t>(i));
    }
  }
}

/// Many runs of one kernel in a row, without waiting between them.
void use_queue(const xrt::device& device, const xrt::uuid& uuid) {
  xrt::kernel vadd(device, uuid, "vadd");
  Sum sum(device, vadd, xrt::bo::flags::normal, xrt::bo::flags::normal);
  sum.fill(2);
  sum.a.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  sum.b.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  std::vector<xrt::run> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(vadd(sum.a, sum.b, sum.c, kWords));
  for (xrt::run& run : runs) run.wait();
  sum.c.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  sum.check(2);
}

/// Registers without a scheduler.
void use_registers(const xrt::device& device, const xrt::uuid& uuid) {
  constexpr std::uint32_t kWordsRegister = 0x34;
  xrt::ip vadd(device, uuid, "vadd:{vadd_1}");
  vadd.write_register(kWordsRegister, 12345);
  require(vadd.read_register(kWordsRegister) == 12345, "a register does not keep its value");
  vadd.write_register(kWordsRegister, 0);
  vadd.write_register(0, 1);
  for (int i = 0; i < 100; ++i) {
    if ((vadd.read_register(0) & 2) != 0) return;
  }
  throw std::runtime_error("a run of no words does not end");
}

/// Buffers of many packets, with odd sizes and offsets.
void copy_much(const xrt::device& device, const xrt::uuid& uuid) {
  const xrt::kernel vadd(device, uuid, "vadd");
  constexpr std::size_t kLarge = (std::size_t{48} << 20) + 4097;
  xrt::bo buffer(device, kLarge, vadd.group_id(0));
  auto* const bytes = buffer.map<unsigned char*>();
  for (std::size_t i = 0; i < kLarge; ++i)
    bytes[i] = static_cast<unsigned char>(i * 2654435761U >> 13);
  const std::vector<unsigned char> sent(bytes, bytes + kLarge);
  buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  std::memset(bytes, 0, kLarge);
  buffer.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  require(std::memcmp(bytes, sent.data(), kLarge) == 0, "a large buffer came back differently");
  std::memset(bytes + 100'001, 0xee, 300'003);
  buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE, 300'003, 100'001);
  std::memset(bytes, 0, kLarge);
  buffer.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  require(bytes[100'000] == sent[100'000] && bytes[100'001] == 0xee && bytes[400'003] == 0xee &&
              bytes[400'004] == sent[400'004],
          "a part of a buffer went elsewhere");
}

/// Buffers of all kinds, whole and in parts, from one to the other on the card.
void copy_on_the_card(const xrt::device& device, const xrt::uuid& uuid) {
  const xrt::kernel vadd(device, uuid, "vadd");
  using Flags = xrt::bo::flags;
  for (const Flags source : {Flags::normal, Flags::p2p}) {
    for (const Flags target : {Flags::normal, Flags::p2p}) {
      xrt::bo from(device, kBytes, source, vadd.group_id(0));
      xrt::bo to(device, kBytes, target, vadd.group_id(1));
      const auto put = [](xrt::bo& buffer, unsigned char value) {
        std::memset(buffer.map<unsigned char*>(), value, kBytes);
        buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
      };
      const auto is = [&](std::size_t at, unsigned char value) {
        to.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
        require(to.map<unsigned char*>()[at] == value, "byte " + std::to_string(at) + " is wrong");
      };
      put(from, 7);
      put(to, 1);
      to.copy(from, 4096, 4096, 100);
      is(99, 1);
      is(100, 7);
      is(4195, 7);
      is(4196, 1);
      to.copy(from);
      is(0, 7);
      is(kBytes - 1, 7);
    }
  }
}

/// Has a device open until it is killed.
void linger(const xrt::device& device, const xrt::uuid& uuid) {
  const xrt::kernel vadd(device, uuid, "vadd");
  const xrt::bo shared(device, kBytes, xrt::bo::flags::p2p, vadd.group_id(0));
  std::cout << "lingers\n" << std::flush;
  for (;;) {
    (void)vadd.group_id(0);
    xrt::bo buffer(device, kBytes, vadd.group_id(0));
    buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

int main(int count, char** arguments) try {
  const std::map<std::string, std::function<void(const xrt::device&, const xrt::uuid&)>> uses{
      {"host_memory", use_host_memory},       {"shared_memory", use_shared_memory},
      {"two_units", use_two_units},           {"queue", use_queue},
      {"registers", use_registers},           {"copy_much", copy_much},
      {"copy_on_the_card", copy_on_the_card}, {"linger", linger}};
  if (count != 3 || !uses.contains(arguments[1])) {
    std::cerr << "usage: xrt_application USE XCLBIN\n";
    return 2;
  }
  xrt::device device(0);
  const auto uuid = device.load_xclbin(arguments[2]);
  uses.at(arguments[1])(device, uuid);
  std::cout << arguments[1] << " works\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

// Sealed objects: the standard's own vectors, round trips through any segments, and nothing opens
// that is not exactly what was sealed.
#include "media/sealer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "media/checked_copy.hpp"
#include "media/guarded.hpp"
#include "media/wipe.hpp"
#include "support/checksum.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view digits) {
  Bytes bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

Bytes random_bytes(Random& random, std::size_t bytes) {
  Bytes data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

SecretKey key_of(const Bytes& bytes) {
  SecretKey key;
  const std::span<const std::byte, SecretKey::kBytes> fixed(bytes.data(), SecretKey::kBytes);
  EXPECT_EQ(SecretKey::copy_of(fixed, &key), Status::kOk);
  return key;
}

std::unique_ptr<Sealer> sealer_of(const SecretKey& key) {
  std::unique_ptr<Sealer> sealer;
  EXPECT_EQ(Sealer::create(key, &sealer), Status::kOk);
  return sealer;
}

/// A sealed part as a pool would hold it.
struct Sealed {
  Bytes ciphertext;
  SealTag tag{};
  std::uint32_t crc = 0;
};

Sealed seal(Sealer* sealer, const SealedAs& as, std::span<const std::byte> plaintext) {
  const std::span<const std::byte> segments[] = {plaintext};
  SourceCursor from(segments);
  Sealed sealed{.ciphertext = Bytes(plaintext.size())};
  EXPECT_EQ(sealer->seal(as, &from, sealed.ciphertext, &sealed.tag, &sealed.crc), Status::kOk);
  copy_fence();
  return sealed;
}

Status open(Sealer* sealer, const SealedAs& as, const Sealed& sealed, Bytes* plaintext) {
  plaintext->assign(sealed.ciphertext.size(), std::byte{0xEE});
  const std::span<std::byte> segments[] = {std::span(*plaintext)};
  TargetCursor to(segments);
  return sealer->open(as, sealed.ciphertext, sealed.tag, &to);
}

/// AES-256 vectors of "The Galois/Counter Mode of Operation", appendix B, which NIST took over.
struct Vector {
  const char* name;
  const char* key;
  const char* nonce;
  const char* identity;
  const char* plaintext;
  const char* ciphertext;
  const char* tag;
};

constexpr const char* kZeroKey = "0000000000000000000000000000000000000000000000000000000000000000";
constexpr const char* kKey = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";

constexpr Vector kVectors[] = {
    {"test case 13", kZeroKey, "000000000000000000000000", "", "", "",
     "530f8afbc74536b9a963b4f1c4cb738b"},
    {"test case 14", kZeroKey, "000000000000000000000000", "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"test case 15", kKey, "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {"test case 16", kKey, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

TEST(SealerTest, SealsTheVectorsOfTheStandard) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.name);
    const Bytes nonce = from_hex(vector.nonce);
    const Bytes identity = from_hex(vector.identity);
    SealedAs as{.identity = identity};
    for (std::size_t i = 8; i-- > 0;) {
      as.generation = as.generation << 8 | std::to_integer<std::uint64_t>(nonce[i]);
    }
    for (std::size_t i = 12; i-- > 8;) {
      as.part = as.part << 8 | std::to_integer<std::uint32_t>(nonce[i]);
    }
    const auto sealer = sealer_of(key_of(from_hex(vector.key)));
    const Bytes plaintext = from_hex(vector.plaintext);
    const Sealed sealed = seal(sealer.get(), as, plaintext);
    EXPECT_EQ(sealed.ciphertext, from_hex(vector.ciphertext));
    EXPECT_TRUE(std::ranges::equal(sealed.tag, from_hex(vector.tag)));
    Bytes back;
    EXPECT_EQ(open(sealer.get(), as, sealed, &back), Status::kOk);
    EXPECT_EQ(back, plaintext);
  }
}

/// `bytes` in segments of random sizes, some empty.
template <typename Byte>
std::vector<std::span<Byte>> cut(Random& random, std::span<Byte> bytes) {
  std::vector<std::span<Byte>> segments;
  while (!bytes.empty()) {
    const std::size_t size =
        std::min<std::size_t>(bytes.size(), pick(random, 0, pick(random, 0, 1) == 0 ? 50 : 40000));
    segments.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return segments;
}

TEST(SealerTest, OpensIntoAnySegmentsWhatItSealedFromAny) {
  Random keys = case_random(1000);
  const auto sealer = sealer_of(key_of(random_bytes(keys, SecretKey::kBytes)));
  for (std::uint64_t number = 0; number < 60; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const Bytes identity = random_bytes(random, pick(random, 0, 100));
    const SealedAs as{random(), static_cast<std::uint32_t>(random()), identity};
    const Bytes plaintext =
        random_bytes(random, pick(random, 0, number % 10 == 0 ? 3 << 20 : 70000));
    const auto sources = cut(random, std::span(plaintext));
    SourceCursor from(sources);
    Sealed sealed{.ciphertext = Bytes(plaintext.size())};
    ASSERT_EQ(sealer->seal(as, &from, sealed.ciphertext, &sealed.tag, &sealed.crc), Status::kOk);
    copy_fence();
    EXPECT_EQ(from.remaining_bytes(), 0U);
    EXPECT_EQ(sealed.crc, checksum(sealed.ciphertext));
    // Cut or whole, the same is sealed.
    EXPECT_EQ(seal(sealer.get(), as, plaintext).ciphertext, sealed.ciphertext);

    Bytes back(plaintext.size());
    const auto targets = cut(random, std::span(back));
    TargetCursor to(targets);
    ASSERT_EQ(sealer->open(as, sealed.ciphertext, sealed.tag, &to), Status::kOk);
    EXPECT_EQ(back, plaintext);
  }
}

TEST(SealerTest, NothingOpensThatIsNotWhatWasSealed) {
  Random random = case_random(0);
  const Bytes key_bytes = random_bytes(random, SecretKey::kBytes);
  const auto sealer = sealer_of(key_of(key_bytes));
  const Bytes identity = random_bytes(random, 40);
  const SealedAs as{.generation = 7, .part = 3, .identity = identity};
  const Bytes plaintext = random_bytes(random, 50000);
  const Sealed sealed = seal(sealer.get(), as, plaintext);
  Bytes back;
  const auto expect_corrupt = [&](Sealer* by, const SealedAs& named, const Sealed& stored,
                                  const std::string& what) {
    EXPECT_EQ(open(by, named, stored, &back), Status::kCorrupt) << what;
    EXPECT_EQ(back, Bytes(stored.ciphertext.size())) << what << ": plaintext was given out";
    // And the sealer still opens what is genuine.
    EXPECT_EQ(open(sealer.get(), as, sealed, &back), Status::kOk) << what;
  };

  for (const std::size_t at : {0UL, 15UL, 16UL, 16383UL, 16384UL, 49999UL}) {
    for (int bit = 0; bit < 8; bit += 7) {
      Sealed touched = sealed;
      touched.ciphertext[at] ^= std::byte{1} << bit;
      expect_corrupt(sealer.get(), as, touched, "ciphertext, byte " + std::to_string(at));
    }
  }
  for (std::size_t at = 0; at < sealed.tag.size(); ++at) {
    Sealed touched = sealed;
    touched.tag[at] ^= std::byte{0x80};
    expect_corrupt(sealer.get(), as, touched, "tag, byte " + std::to_string(at));
  }
  for (std::size_t at = 0; at < identity.size(); ++at) {
    Bytes other = identity;
    other[at] ^= std::byte{1};
    expect_corrupt(sealer.get(), {7, 3, other}, sealed, "identity, byte " + std::to_string(at));
  }
  expect_corrupt(sealer.get(), {7, 3, std::span(identity).first(39)}, sealed, "identity, shorter");
  expect_corrupt(sealer.get(), {7, 3, {}}, sealed, "identity, none");
  for (int bit = 0; bit < 64; ++bit) {
    expect_corrupt(sealer.get(), {7 ^ std::uint64_t{1} << bit, 3, identity}, sealed, "generation");
  }
  for (int bit = 0; bit < 32; ++bit) {
    expect_corrupt(sealer.get(), {7, 3 ^ std::uint32_t{1} << bit, identity}, sealed, "part");
  }
  for (std::size_t at = 0; at < key_bytes.size(); ++at) {
    Bytes other = key_bytes;
    other[at] ^= std::byte{1};
    expect_corrupt(sealer_of(key_of(other)).get(), as, sealed, "key, byte " + std::to_string(at));
  }
  Sealed shorter = sealed;
  shorter.ciphertext.pop_back();
  expect_corrupt(sealer.get(), as, shorter, "one byte less");
  Sealed longer = sealed;
  longer.ciphertext.push_back(std::byte{0});
  expect_corrupt(sealer.get(), as, longer, "one byte more");
}

TEST(SealerTest, RefusesCursorsThatAreTooShort) {
  Random random = case_random(0);
  const auto sealer = sealer_of(key_of(random_bytes(random, SecretKey::kBytes)));
  Bytes small(100);
  Bytes pool(101, std::byte{5});
  const std::span<const std::byte> sources[] = {std::span(small)};
  SourceCursor from(sources);
  SealTag tag{};
  std::uint32_t crc = 0;
  EXPECT_EQ(sealer->seal({}, &from, pool, &tag, &crc), Status::kBadArgument);
  EXPECT_EQ(pool, Bytes(101, std::byte{5}));
  const std::span<std::byte> targets[] = {std::span(small)};
  TargetCursor to(targets);
  EXPECT_EQ(sealer->open({}, pool, tag, &to), Status::kBadArgument);
  EXPECT_EQ(small, Bytes(100));
  std::unique_ptr<Sealer> none;
  EXPECT_EQ(Sealer::create(SecretKey(), &none), Status::kBadArgument);
}

TEST(SealerTest, AFaultInTheMiddleLeavesTheSealerUsable) {
  constexpr std::size_t kPageBytes = 4096;
  constexpr std::size_t kMapped = 64 * kPageBytes;
  const TemporaryFile file("sealer_fault");
  const int fd = ::open(file.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(fd, kMapped), 0);
  void* const address = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(address, MAP_FAILED);
  ASSERT_EQ(::ftruncate(fd, kMapped / 2), 0);
  ::close(fd);
  const std::span pool(static_cast<std::byte*>(address), kMapped);

  Random random = case_random(0);
  const auto sealer = sealer_of(key_of(random_bytes(random, SecretKey::kBytes)));
  const Bytes plaintext = random_bytes(random, kMapped);
  const SealedAs as{.generation = 1, .part = 0, .identity = {}};
  const Sealed expected = seal(sealer.get(), as, plaintext);
  const std::span<const std::byte> sources[] = {std::span(plaintext)};
  Bytes host(kMapped);
  const std::span<std::byte> targets[] = {std::span(host)};
  const SigbusHandler handler;
  for (int round = 0; round < 3; ++round) {
    SourceCursor from(sources);
    TargetCursor to(targets);
    SealTag tag{};
    std::uint32_t crc = 0;
    std::uintptr_t fault = 0;
    Status status = Status::kOk;
    EXPECT_EQ(guarded(
                  pool, [&] { status = sealer->seal(as, &from, pool, &tag, &crc); }, &fault),
              Status::kPoison);
    EXPECT_EQ(fault, reinterpret_cast<std::uintptr_t>(address) + kMapped / 2);
    EXPECT_EQ(guarded(
                  pool, [&] { status = sealer->open(as, pool, expected.tag, &to); }, &fault),
              Status::kPoison);
    EXPECT_EQ(seal(sealer.get(), as, plaintext).ciphertext, expected.ciphertext);
    Bytes back;
    EXPECT_EQ(open(sealer.get(), as, expected, &back), Status::kOk);
    EXPECT_EQ(back, plaintext);
  }
  ::munmap(address, kMapped);
}

TEST(SealerTest, ThreadsWithASealerEachDoNotDisturbOneAnother) {
  Random keys = case_random(0);
  const SecretKey key = key_of(random_bytes(keys, SecretKey::kBytes));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  threads.reserve(wrong.size());
  for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      Random random = case_random(thread);
      const auto sealer = sealer_of(key);
      for (std::uint64_t generation = 0; generation < 50; ++generation) {
        const Bytes plaintext = random_bytes(random, 5000);
        const SealedAs as{generation, static_cast<std::uint32_t>(thread), {}};
        Bytes back;
        const Status status = open(sealer.get(), as, seal(sealer.get(), as, plaintext), &back);
        if (status != Status::kOk || back != plaintext) ++wrong[thread];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(WipeTest, ZeroesExactlyTheBytes) {
  for (std::uint64_t number = 0; number < 300; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    Bytes memory(30000, std::byte{0xA5});
    const std::size_t begin = pick(random, 0, 10000);
    const std::size_t size = pick(random, 0, number % 2 == 0 ? 200 : 20000);
    wipe(std::span(memory).subspan(begin, size));
    Bytes expected(30000, std::byte{0xA5});
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(begin), size, std::byte{0});
    ASSERT_EQ(memory, expected);
  }
}

}  // namespace
}  // namespace nearkv::test

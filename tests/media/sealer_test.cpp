// Sealed parts: the specification's own vectors, round trips through any segments, and nothing
// opens that is not exactly what was sealed.
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

#include "media/guarded.hpp"
#include "media/sealed_streams.hpp"
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
  nkv_object_seal seal{};
};

Sealed seal(Sealer* sealer, const Bytes& identity, std::span<const std::byte> plaintext) {
  const std::span<const std::byte> segments[] = {plaintext};
  SourceCursor from(segments);
  Sealed sealed{.ciphertext = Bytes(plaintext.size())};
  SealingSource source(sealer, &from, identity, plaintext.size(), &sealed.seal);
  sealed.seal.crc = source.give(sealed.ciphertext, 0);
  copy_fence();
  EXPECT_EQ(source.status(), Status::kOk);
  return sealed;
}

Status open(Sealer* sealer, const Bytes& identity, const Sealed& sealed, Bytes* plaintext) {
  plaintext->assign(sealed.ciphertext.size(), std::byte{0xEE});
  const std::span<std::byte> segments[] = {std::span(*plaintext)};
  TargetCursor to(segments);
  OpeningSink sink(sealer, &to, identity, sealed.seal);
  (void)sink.take(sealed.ciphertext, 0);
  return sink.finish();
}

/// The specification's vectors (C2SP, XAES-256-GCM).
struct Vector {
  const char* key;
  std::string_view identity;
  const char* ciphertext;
  const char* tag;
};

constexpr std::string_view kNonce = "ABCDEFGHIJKLMNOPQRSTUVWX";
constexpr std::string_view kPlaintext = "XAES-256-GCM";
// Their keys differ in the first bit of what masks the derivation of a part's key.
constexpr Vector kVectors[] = {
    {"0101010101010101010101010101010101010101010101010101010101010101", "",
     "ce546ef63c9cc60765923609", "b33a9a1974e96e52daf2fcf7075e2271"},
    {"0303030303030303030303030303030303030303030303030303030303030303", "c2sp.org/XAES-256-GCM",
     "986ec1832593df5443a17943", "7fd083bf3fdb41abd740a21f71eb769d"},
};

TEST(SealerTest, SealsTheVectorsOfTheSpecification) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.key);
    const auto sealer = sealer_of(key_of(from_hex(vector.key)));
    SealNonce nonce;
    std::ranges::copy(std::as_bytes(std::span(kNonce)), nonce.begin());
    Bytes sealed(kPlaintext.size());
    SealTag tag{};
    ASSERT_EQ(
        sealer->begin(Sealer::Direction::kSeal, nonce, std::as_bytes(std::span(vector.identity))),
        Status::kOk);
    ASSERT_EQ(sealer->update(std::as_bytes(std::span(kPlaintext)), sealed.data()), Status::kOk);
    ASSERT_EQ(sealer->finish(&tag), Status::kOk);
    EXPECT_EQ(sealed, from_hex(vector.ciphertext));
    EXPECT_TRUE(std::ranges::equal(tag, from_hex(vector.tag)));
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
    const Bytes plaintext =
        random_bytes(random, pick(random, 1, number % 10 == 0 ? 3 << 20 : 70000));
    const auto sources = cut(random, std::span(plaintext));
    SourceCursor from(sources);
    Sealed sealed{.ciphertext = Bytes(plaintext.size())};
    SealingSource source(sealer.get(), &from, identity, plaintext.size(), &sealed.seal);
    for (const std::span<std::byte> run : cut(random, std::span(sealed.ciphertext))) {
      sealed.seal.crc = source.give(run, sealed.seal.crc);
    }
    copy_fence();
    ASSERT_EQ(source.status(), Status::kOk);
    EXPECT_EQ(from.remaining_bytes(), 0U);
    EXPECT_EQ(sealed.seal.crc, checksum(sealed.ciphertext));

    Bytes back(plaintext.size());
    const auto targets = cut(random, std::span(back));
    TargetCursor to(targets);
    OpeningSink sink(sealer.get(), &to, identity, sealed.seal);
    std::uint32_t crc = 0;
    for (const auto run : cut(random, std::span<const std::byte>(sealed.ciphertext))) {
      crc = sink.take(run, crc);
    }
    ASSERT_EQ(sink.finish(), Status::kOk);
    EXPECT_EQ(crc, sealed.seal.crc);
    EXPECT_EQ(back, plaintext);
  }
}

TEST(SealerTest, TheSameBytesAreNeverSealedAlike) {
  Random random = case_random(0);
  const auto sealer = sealer_of(key_of(random_bytes(random, SecretKey::kBytes)));
  const Bytes plaintext = random_bytes(random, 100);
  const Sealed first = seal(sealer.get(), {}, plaintext);
  const Sealed second = seal(sealer.get(), {}, plaintext);
  EXPECT_FALSE(std::ranges::equal(first.seal.nonce, second.seal.nonce));
  EXPECT_NE(first.ciphertext, second.ciphertext);
}

TEST(SealerTest, NothingOpensThatIsNotWhatWasSealed) {
  Random random = case_random(0);
  const Bytes key_bytes = random_bytes(random, SecretKey::kBytes);
  const auto sealer = sealer_of(key_of(key_bytes));
  const Bytes identity = random_bytes(random, 40);
  const Bytes plaintext = random_bytes(random, 50000);
  const Sealed sealed = seal(sealer.get(), identity, plaintext);
  Bytes back;
  const auto expect_denied = [&](Sealer* by, const Bytes& named, const Sealed& stored,
                                 const std::string& what) {
    EXPECT_EQ(open(by, named, stored, &back), Status::kDenied) << what;
    EXPECT_EQ(back, Bytes(stored.ciphertext.size())) << what << ": plaintext was given out";
    // And the sealer still opens what is genuine.
    EXPECT_EQ(open(sealer.get(), identity, sealed, &back), Status::kOk) << what;
    EXPECT_EQ(back, plaintext) << what;
  };

  for (const std::size_t at : {0UL, 15UL, 16UL, 16383UL, 16384UL, 49999UL}) {
    for (int bit = 0; bit < 8; bit += 7) {
      Sealed touched = sealed;
      touched.ciphertext[at] ^= std::byte{1} << bit;
      expect_denied(sealer.get(), identity, touched, "ciphertext, byte " + std::to_string(at));
    }
  }
  for (std::size_t at = 0; at < std::size(sealed.seal.tag); ++at) {
    Sealed touched = sealed;
    touched.seal.tag[at] ^= 0x80;
    expect_denied(sealer.get(), identity, touched, "tag, byte " + std::to_string(at));
  }
  for (std::size_t at = 0; at < std::size(sealed.seal.nonce); ++at) {
    Sealed touched = sealed;
    touched.seal.nonce[at] ^= 0x01;
    expect_denied(sealer.get(), identity, touched, "nonce, byte " + std::to_string(at));
  }
  for (std::size_t at = 0; at < identity.size(); ++at) {
    Bytes other = identity;
    other[at] ^= std::byte{1};
    expect_denied(sealer.get(), other, sealed, "identity, byte " + std::to_string(at));
  }
  expect_denied(sealer.get(), Bytes(identity.begin(), identity.end() - 1), sealed,
                "identity, shorter");
  expect_denied(sealer.get(), {}, sealed, "identity, none");
  for (std::size_t at = 0; at < key_bytes.size(); ++at) {
    Bytes other = key_bytes;
    other[at] ^= std::byte{1};
    expect_denied(sealer_of(key_of(other)).get(), identity, sealed,
                  "key, byte " + std::to_string(at));
  }
  Sealed shorter = sealed;
  shorter.ciphertext.pop_back();
  expect_denied(sealer.get(), identity, shorter, "one byte less");
  Sealed longer = sealed;
  longer.ciphertext.push_back(std::byte{0});
  expect_denied(sealer.get(), identity, longer, "one byte more");
}

TEST(SealerTest, NeedsAKey) {
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
  const Sealed expected = seal(sealer.get(), {}, plaintext);
  const std::span<const std::byte> sources[] = {std::span(plaintext)};
  Bytes host(kMapped);
  const std::span<std::byte> targets[] = {std::span(host)};
  const SigbusHandler handler;
  for (int round = 0; round < 3; ++round) {
    SourceCursor from(sources);
    TargetCursor to(targets);
    nkv_object_seal ignored{};
    SealingSource source(sealer.get(), &from, {}, kMapped, &ignored);
    std::uintptr_t fault = 0;
    EXPECT_EQ(guarded(pool, [&] { (void)source.give(pool, 0); }, &fault), Status::kPoison);
    EXPECT_EQ(fault, reinterpret_cast<std::uintptr_t>(address) + kMapped / 2);
    OpeningSink sink(sealer.get(), &to, {}, expected.seal);
    EXPECT_EQ(guarded(pool, [&] { (void)sink.take(pool, 0); }, &fault), Status::kPoison);
    sink.discard();
    EXPECT_EQ(host, Bytes(kMapped));
    Bytes back;
    EXPECT_EQ(open(sealer.get(), {}, expected, &back), Status::kOk);
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
      for (int part = 0; part < 50; ++part) {
        const Bytes plaintext = random_bytes(random, 5000);
        Bytes back;
        const Status status = open(sealer.get(), {}, seal(sealer.get(), {}, plaintext), &back);
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

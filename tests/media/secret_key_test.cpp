// Where keys come from: files that only their owner can use, and HKDF as RFC 5869 has it.
#include "media/secret_key.hpp"

#include <gtest/gtest.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

SecretKey key_of(const Bytes& bytes) {
  SecretKey key;
  const std::span<const std::byte, SecretKey::kBytes> fixed(bytes.data(), SecretKey::kBytes);
  EXPECT_EQ(SecretKey::copy_of(fixed, &key), Status::kOk);
  return key;
}

class SecretKeyFileTest : public testing::Test {
 protected:
  void write_file(std::size_t bytes, std::filesystem::perms mode) {
    std::ofstream file(place_.path(), std::ios::binary | std::ios::trunc);
    const Bytes contents = counting(bytes);
    file.write(reinterpret_cast<const char*>(contents.data()),
               static_cast<std::streamsize>(contents.size()));
    file.close();
    std::filesystem::permissions(place_.path(), mode);
  }

  Status load(const std::filesystem::path& path) {
    key_ = SecretKey();
    reason_.clear();
    return SecretKey::load(path, &key_, &reason_);
  }

  TemporaryFile place_{"secret_key"};
  SecretKey key_;
  std::string reason_;
};

TEST_F(SecretKeyFileTest, AFileOfItsOwnersAloneIsTaken) {
  using std::filesystem::perms;
  for (const perms mode : {perms::owner_read | perms::owner_write, perms::owner_read}) {
    write_file(SecretKey::kBytes, mode);
    ASSERT_EQ(load(place_.path()), Status::kOk) << reason_;
    EXPECT_TRUE(std::ranges::equal(key_.bytes(), counting(SecretKey::kBytes)));
    std::filesystem::remove(place_.path());
  }
}

TEST_F(SecretKeyFileTest, AFileThatOthersMayUseIsRefused) {
  using std::filesystem::perms;
  for (const perms extra : {perms::group_read, perms::group_write, perms::group_exec,
                            perms::others_read, perms::others_write, perms::others_exec}) {
    write_file(SecretKey::kBytes, perms::owner_read | perms::owner_write | extra);
    EXPECT_EQ(load(place_.path()), Status::kBadArgument);
    EXPECT_NE(reason_.find("0600"), std::string::npos) << reason_;
    EXPECT_TRUE(key_.empty());
  }
}

TEST_F(SecretKeyFileTest, WhatIsNoKeyIsRefusedWithAReason) {
  using std::filesystem::perms;
  EXPECT_EQ(load(place_.path()), Status::kIoError) << "absent";
  EXPECT_FALSE(reason_.empty());
  for (const std::size_t bytes : {0UL, 31UL, 33UL, 64UL}) {
    write_file(bytes, perms::owner_read | perms::owner_write);
    EXPECT_EQ(load(place_.path()), Status::kBadArgument) << bytes << " bytes";
    EXPECT_NE(reason_.find("32 bytes"), std::string::npos) << reason_;
  }
  write_file(SecretKey::kBytes, perms::owner_read | perms::owner_write);
  const TemporaryFile link("secret_key_link");
  std::filesystem::create_symlink(place_.path(), link.path());
  EXPECT_EQ(load(link.path()), Status::kIoError) << "a link, which others may point elsewhere";
  EXPECT_EQ(load(std::filesystem::temp_directory_path()), Status::kBadArgument) << "a folder";
  EXPECT_EQ(load("/dev/zero"), Status::kBadArgument) << "a device";
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(place_.path().c_str(), 12345, 12345), 0);
    EXPECT_EQ(load(place_.path()), Status::kBadArgument) << "of another user";
    EXPECT_NE(reason_.find("another user"), std::string::npos) << reason_;
  }
}

std::array<unsigned char, 32> hmac(const void* key, std::size_t key_bytes, const Bytes& data) {
  std::array<unsigned char, 32> digest{};
  ::HMAC(::EVP_sha256(), key, static_cast<int>(key_bytes),
         reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(), nullptr);
  return digest;
}

Bytes as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(SecretKeyTest, DerivesByExtractAndExpand) {
  const Bytes master = counting(SecretKey::kBytes);
  SecretKey derived;
  ASSERT_EQ(SecretKey::derive(key_of(master), "alpha", &derived), Status::kOk);
  // RFC 5869, 2.2 and 2.3; without a salt it is zeros, and one block is all that is needed.
  const Bytes salt(32);
  const auto extracted = hmac(salt.data(), salt.size(), master);
  Bytes info = as_bytes("nearkv sealed objects 1");
  info.push_back(std::byte{0});
  for (const std::byte byte : as_bytes("alpha")) info.push_back(byte);
  info.push_back(std::byte{1});
  const auto expected = hmac(extracted.data(), extracted.size(), info);
  EXPECT_TRUE(std::ranges::equal(derived.bytes(), std::as_bytes(std::span(expected))));
}

TEST(SecretKeyTest, EveryTenantOfEveryMasterHasAKeyOfItsOwn) {
  Bytes other_master = counting(SecretKey::kBytes);
  other_master[31] ^= std::byte{1};
  const std::array<std::string_view, 5> tenants = {"", "a", "b", "ab", {"a\0b", 3}};
  std::set<Bytes> keys;
  std::size_t derivations = 0;
  for (const Bytes& master : {counting(SecretKey::kBytes), other_master}) {
    for (const std::string_view tenant : tenants) {
      SecretKey derived;
      ASSERT_EQ(SecretKey::derive(key_of(master), tenant, &derived), Status::kOk);
      keys.insert(Bytes(derived.bytes().begin(), derived.bytes().end()));
      ++derivations;
    }
  }
  EXPECT_EQ(keys.size(), derivations);
}

TEST(SecretKeyTest, RefusesAnEmptyMaster) {
  SecretKey derived;
  EXPECT_EQ(SecretKey::derive(SecretKey(), "a", &derived), Status::kBadArgument);
  EXPECT_TRUE(derived.empty());
}

TEST(SecretKeyTest, MovesWithoutLeavingACopy) {
  SecretKey first = key_of(counting(32));
  const void* const place = first.bytes().data();
  SecretKey second = std::move(first);
  EXPECT_EQ(second.bytes().data(), place);
  SecretKey third;
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), place);
  EXPECT_TRUE(std::ranges::equal(third.bytes(), counting(32)));
}

}  // namespace
}  // namespace nearkv::test

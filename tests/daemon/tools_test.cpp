// The tools, end to end: `nearkv` with a daemon, and with a pool that nobody serves; metrics.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <regex>
#include <set>

#include "server_fixture.hpp"
#include "support/daemon_process.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

using Json = nlohmann::json;

struct Output {
  int exit = -1;
  std::string text;  ///< Standard output and error.
};

Output nearkv(const std::string& arguments) {
  const std::string command = std::string(NEARKV_EXECUTABLE) + " " + arguments + " 2>&1";
  Output output;
  // NOLINTNEXTLINE(bugprone-command-processor): the tools are what shells run.
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), bytes);
  }
  const int status = ::pclose(pipe);
  output.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

Json json_of(const std::string& arguments, int exit = 0) {
  const Output output = nearkv(arguments);
  EXPECT_EQ(output.exit, exit) << output.text;
  return Json::parse(output.text, nullptr, false);
}

/// The body of GET /metrics.
std::string scrape(std::uint16_t port) {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(::write(fd.get(), request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t bytes; (bytes = ::read(fd.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

/// Changes one bit of a file.
void flip(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1));
}

nkv_object_record read_record(const std::string& path, std::uint64_t at) {
  nkv_object_record record{};
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(&record), sizeof(record));
  return record;
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ToolsTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = connect_to(daemon_.socket());
    ASSERT_EQ(store_->open_namespace(namespace_of(1, "llama"), &space_), Status::kOk);
    for (std::uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 10000)), Status::kOk);
    }
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
    ASSERT_EQ(get(store_.get(), space_, key_of(999), &found), Status::kNotFound);
  }

  [[nodiscard]] std::string socket() const { return " --socket " + daemon_.socket() + " "; }

  DaemonProcess daemon_{"scrub_rate = 0"};
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

TEST_F(ToolsTest, StatTellsWhatIsThereAndWhoDidWhat) {
  const Json stat = json_of("stat --json" + socket());
  EXPECT_EQ(stat["store"]["objects"], 10);
  EXPECT_EQ(stat["store"]["hits"], 1);
  EXPECT_EQ(stat["store"]["misses"], 1);
  EXPECT_EQ(stat["tenants"][0]["name"], "tenant-1");
  EXPECT_EQ(stat["tenants"][0]["sets"], 10);
  EXPECT_EQ(stat["tenants"][0]["set_bytes"], 100000);
  EXPECT_EQ(stat["tenants"][0]["quota_bytes"], nullptr);
  EXPECT_EQ(stat["tenants"][1]["sets"], 0);
  EXPECT_EQ(stat["clients"].size(), 2U);
  const Output text = nearkv("stat" + socket());
  EXPECT_NE(text.text.find("10 objects"), std::string::npos) << text.text;
}

TEST(TieredToolsTest, StatAndMetricsTellOfEachTier) {
  const DaemonProcess daemon("scrub_rate = 0", [](const TemporaryFolder& folder) {
    return "[[pool]]\nsize = \"16MiB\"\n[[pool]]\ndevice = \"file\"\npath = \"" +
           folder.file("pool") + "\"\nsize = \"64MiB\"\n";
  });
  const auto store = connect_to(daemon.socket());
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 10000)), Status::kOk);
  const Json stat = json_of("stat --json --socket " + daemon.socket());
  ASSERT_EQ(stat["tiers"].size(), 2U);
  EXPECT_EQ(stat["tiers"][0]["objects"], 1);
  EXPECT_EQ(stat["tiers"][1]["objects"], 0);
  EXPECT_EQ(stat["store"]["demotions"], 0);
  const Output text = nearkv("stat --socket " + daemon.socket());
  EXPECT_NE(text.text.find("TIER"), std::string::npos) << text.text;
  const std::string body = scrape(daemon.event("serving")->at("metrics_port"));
  EXPECT_NE(body.find("\nnearkv_objects{tier=\"0\"} 1\n"), std::string::npos) << body;
  EXPECT_NE(body.find("\nnearkv_objects{tier=\"1\"} 0\n"), std::string::npos) << body;
}

TEST_F(ToolsTest, LsListsNamespacesAndObjects) {
  const Json namespaces = json_of("ls --json" + socket());
  ASSERT_EQ(namespaces.size(), 1U);
  EXPECT_EQ(namespaces[0]["tenant"], 1);
  EXPECT_NE(namespaces[0]["text"].get<std::string>().find("llama"), std::string::npos);
  const Json objects = json_of("ls " + std::to_string(space_) + " --json" + socket());
  ASSERT_EQ(objects.size(), 10U);
  EXPECT_EQ(objects[0]["bytes"], 10000);
  EXPECT_EQ(objects[0]["key"].get<std::string>().size(), 64U);
  EXPECT_EQ(json_of("ls 0 --limit 3 --json" + socket()).size(), 3U);
  const Output missing = nearkv("ls 77" + socket());
  EXPECT_EQ(missing.exit, 1);
  EXPECT_NE(missing.text.find("there is no namespace 77"), std::string::npos);
}

TEST_F(ToolsTest, TopTellsRatesWithoutATerminalToo) {
  const Json top = json_of("top --count 1 --interval 0.1 --json" + socket());
  EXPECT_EQ(top["store"]["objects"], 10);
  EXPECT_EQ(top["rates"].size(), 2U);
  EXPECT_EQ(top["rates"][0]["hit_ratio"], 0.5);
  const Output text = nearkv("top --count 2 --interval 0.1" + socket());
  EXPECT_EQ(text.exit, 0);
  EXPECT_NE(text.text.find("tenant-1"), std::string::npos) << text.text;
}

TEST_F(ToolsTest, VerifyAndDefragWorkByTheDaemon) {
  const Json verified = json_of("verify --json" + socket());
  EXPECT_EQ(verified["objects"], 10);
  EXPECT_EQ(verified["bytes"], 100000);
  EXPECT_EQ(verified["damaged"], 0);
  EXPECT_EQ(json_of("defrag --json" + socket())["moved_bytes"], 0);
  EXPECT_EQ(nearkv("defrag --most lots" + socket()).exit, 2);
}

TEST_F(ToolsTest, APoolThatNobodyServesCanBeInspectedAndVerified) {
  EXPECT_EQ(nearkv("verify --pool " + daemon_.pool()).exit, 1) << "it is served";
  EXPECT_EQ(json_of("inspect --json " + daemon_.pool())["served"], true);
  EXPECT_EQ(daemon_.end(SIGTERM), 0);
  Json inspected = json_of("inspect --json " + daemon_.pool());
  EXPECT_EQ(inspected["served"], false);
  EXPECT_EQ(inspected["records"]["live"], 10);
  EXPECT_TRUE(inspected["records"]["damaged"].empty());
  EXPECT_EQ(inspected["namespaces"][0]["objects"], 10);
  EXPECT_EQ(inspected["namespaces"][0]["bytes"], 100000);
  EXPECT_EQ(inspected["slab_map"].get<std::string>().size(), inspected["header"]["slabs"]);
  EXPECT_EQ(json_of("verify --json --pool " + daemon_.pool())["damaged"], 0);

  // A flipped byte in an object's payload, and one in a record.
  const std::uint64_t records_at = inspected["tables"]["objects_at"];
  const nkv_object_record record = read_record(daemon_.pool(), records_at);
  ASSERT_EQ(record.state, NKV_OBJECT_STATE_LIVE);
  flip(daemon_.pool(), std::uint64_t{record.extent_first[0]} * NKV_OBJECT_GRAIN_BYTES + 5);
  flip(daemon_.pool(), records_at + sizeof(record) + offsetof(nkv_object_record, key));
  inspected = json_of("inspect --json " + daemon_.pool(), 3);
  EXPECT_EQ(inspected["records"]["damaged"], Json::array({1}));
  const Json verified = json_of("verify --json --pool " + daemon_.pool(), 3);
  EXPECT_EQ(verified["damaged_records"], Json::array({0, 1}));
  // It was only looked at: the daemon finds both and drops them.
  daemon_.start();
  EXPECT_EQ(json_of("verify --json" + socket(), 3)["damaged"], 1);
  EXPECT_EQ(json_of("stat --json" + socket())["store"]["torn"], 1);
  EXPECT_EQ(json_of("stat --json" + socket())["store"]["objects"], 8);
}

TEST_F(ToolsTest, APoolWhoseDaemonDiedBetweenTwoCopiesIsOnlyLookedAt) {
  const Json whole = json_of("inspect --json " + daemon_.pool());
  EXPECT_EQ(daemon_.end(SIGKILL), -SIGKILL);
  // Of a slab that objects use, and of the only namespace, the first copies have come alone.
  std::fstream file(daemon_.pool(), std::ios::in | std::ios::out | std::ios::binary);
  nkv_slab_record slab{};
  std::uint64_t slab_at = whole["tables"]["slabs_at"];
  const auto read_slab = [&] {
    file.seekg(static_cast<std::streamoff>(slab_at));
    file.read(reinterpret_cast<char*>(&slab), sizeof(slab));
  };
  for (read_slab(); slab.slot_bytes != NKV_SLAB_OF_OBJECTS; read_slab()) slab_at += sizeof(slab);
  const std::string nothing(sizeof(nkv_namespace_record), 0);
  const auto clear = [&](std::uint64_t at, std::streamsize bytes) {
    file.seekp(static_cast<std::streamoff>(at));
    file.write(nothing.data(), bytes);
  };
  clear(slab_at + offsetof(nkv_slab_record, copy_slot_bytes), sizeof(std::uint64_t));
  const std::uint64_t namespaces_at = whole["tables"]["namespaces_at"];
  const std::uint64_t max_namespaces = whole["header"]["max_namespaces"];
  clear(namespaces_at + max_namespaces * sizeof(nkv_namespace_record),
        sizeof(nkv_namespace_record));
  file.close();
  const std::string before = bytes_of_file(daemon_.pool());
  const Json inspected = json_of("inspect --json " + daemon_.pool());
  EXPECT_EQ(inspected["records"]["live"], 10);
  EXPECT_EQ(inspected["namespaces"].size(), 1U);
  EXPECT_EQ(json_of("verify --json --pool " + daemon_.pool())["damaged"], 0);
  EXPECT_EQ(bytes_of_file(daemon_.pool()), before);
}

TEST(SealedToolsTest, AnEncryptedPoolThatNobodyServesCanBeVerifiedWithoutItsKey) {
  DaemonProcess daemon("scrub_rate = 0", [](const TemporaryFolder& folder) {
    const std::string key = folder.file("key");
    std::ofstream(key) << std::string(32, 'k');
    std::filesystem::permissions(key, std::filesystem::perms::owner_read);
    return DaemonProcess::one_pool(folder) + "seal_key_file = \"" + key + "\"\n";
  });
  const auto store = connect_to(daemon.socket());
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 10000)), Status::kOk);
  ASSERT_EQ(set_parts(store.get(), space, key_of(2), contents(2, 10000), 3, 0, 3), Status::kOk);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  const std::string verify = "verify --json --pool " + daemon.pool();
  EXPECT_EQ(json_of(verify)["damaged"], 0);
  EXPECT_EQ(json_of(verify)["objects"], 2);
  const Json inspected = json_of("inspect --json " + daemon.pool());
  const nkv_object_record record =
      read_record(daemon.pool(), inspected["tables"]["objects_at"].get<std::uint64_t>());
  ASSERT_NE(record.flags & NKV_OBJECT_FLAG_SEALED, 0);
  const std::uint64_t begin = std::uint64_t{record.extent_first[0]} * NKV_OBJECT_GRAIN_BYTES;
  for (const std::uint64_t at : {std::uint64_t{5}, std::uint64_t{record.bytes} + 5}) {
    flip(daemon.pool(), begin + at);
    EXPECT_EQ(json_of(verify, 3)["damaged_records"], Json::array({0})) << "byte " << at;
    flip(daemon.pool(), begin + at);
  }
  EXPECT_EQ(json_of(verify)["damaged"], 0);
}

// What a terminal would obey: as itself, and as a control character of 8 bits, alone and in UTF-8.
constexpr const char* kEscapes = "llama\x1b]0;renamed\x07\x1b[2J\x7f\x9b\xc2\x9b\xe6\xa8\xa1";

bool is_printable(const std::string& text) {
  return text.find_first_of("\x1b\x07\x7f\x9b") == std::string::npos;
}

TEST_F(ToolsTest, NamesOfClientsDoNotDriveTheTerminal) {
  std::uint32_t space = 0;
  ASSERT_EQ(store_->open_namespace(namespace_of(1, kEscapes), &space), Status::kOk);
  const std::string shown = R"(llama\x1b]0;renamed\x07\x1b[2J\x7f\x9b\xc2\x9b模)";
  for (const std::string& command : {"ls" + socket(), "inspect " + daemon_.pool()}) {
    const Output output = nearkv(command);
    EXPECT_NE(output.text.find(shown), std::string::npos) << output.text;
    EXPECT_TRUE(is_printable(output.text)) << command;
    EXPECT_TRUE(is_printable(nearkv(command + " --json").text)) << command;
  }
  const std::string text = json_of("ls --json" + socket())[1]["text"];
  EXPECT_TRUE(text.starts_with("llama\x1b]0;renamed\x07\x1b[2J\x7f\ufffd\u009b模")) << "exact";
}

TEST(EscapedToolsTest, NeitherDoNamesOfTenantsNorErrors) {
  const DaemonProcess daemon("", [](const TemporaryFolder& folder) {
    return DaemonProcess::one_pool(folder) +
           "[[tenant]]\nnumber = 3\nname = \"a\\u001B[2J\\u009B模\"\nuids = [0]\n";
  });
  const std::string socket = " --socket " + daemon.socket();
  for (const std::string& command : {"stat" + socket, "top --count 1 --interval 0.1" + socket}) {
    const Output output = nearkv(command);
    EXPECT_NE(output.text.find(R"(a\x1b[2J\xc2)"), std::string::npos) << output.text;
    EXPECT_TRUE(is_printable(output.text)) << command;
    EXPECT_EQ(json_of(command + " --json")["tenants"][0]["name"], "a\x1b[2J\u009b模");
  }
  const Output none = nearkv("stat --socket '/nowhere/\x1b[2J'");
  EXPECT_EQ(none.exit, 1);
  EXPECT_NE(none.text.find(R"(/nowhere/\x1b[2J)"), std::string::npos) << none.text;
}

TEST(EscapedToolsTest, NeitherDoesTheDaemonsLog) {
  for (const LogForm form : {LogForm::kText, LogForm::kJson}) {
    testing::internal::CaptureStderr();
    Log(LogLevel::kInfo, form).info("client gone", {{"reason", std::string(kEscapes)}});
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_NE(line.find(R"(llama\u001b)"), std::string::npos) << line;
    EXPECT_TRUE(is_printable(line));
  }
}

TEST_F(ToolsTest, EveryCommandExplainsItself) {
  for (const std::string command : {"serve", "stat", "ls", "top", "inspect", "verify", "defrag"}) {
    const Output help = nearkv(command + " --help");
    EXPECT_EQ(help.exit, 0);
    for (const char* const part : {"DESCRIPTION", "EXAMPLES", "EXIT STATUS"}) {
      EXPECT_NE(help.text.find(part), std::string::npos) << command << " lacks " << part;
    }
  }
}

TEST_F(ToolsTest, ErrorsSayWhatToDo) {
  const Output none = nearkv("stat --socket /nowhere/at/all");
  EXPECT_EQ(none.exit, 1);
  EXPECT_NE(none.text.find("start the daemon"), std::string::npos) << none.text;
  EXPECT_EQ(nearkv("frobnicate").exit, 2);
  EXPECT_EQ(nearkv("stat --frobnicate").exit, 2);
  EXPECT_EQ(nearkv("inspect /dev/null").exit, 1);
  EXPECT_EQ(nearkv("serve").exit, 2);
  EXPECT_EQ(nearkv("serve --config /nowhere").exit, 2);
  EXPECT_EQ(nearkv("serve --pool /tmp/x --size many").exit, 2);
}

TEST_F(ToolsTest, CheckConfigChecksAndNoMore) {
  const Output right = nearkv("serve --check-config --config " + daemon_.config());
  EXPECT_EQ(right.exit, 0) << right.text;
  std::ofstream(daemon_.config(), std::ios::app) << "\nnumbre = 5\n";
  const Output wrong = nearkv("serve --check-config --config " + daemon_.config());
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_NE(wrong.text.find("tenant.numbre"), std::string::npos) << wrong.text;
}

TEST_F(ToolsTest, AReloadTakesQuotasAndTheLevelOfTheLog) {
  std::ofstream(daemon_.config(), std::ios::app) << "\nquota = \"4MiB\"\n";  // Of tenant 2.
  ::kill(daemon_.process(), SIGHUP);
  ASSERT_TRUE(eventually([&] { return daemon_.event("reloaded").has_value(); }));
  const Json tenants = json_of("stat --json" + socket())["tenants"];
  EXPECT_EQ(tenants[0]["quota_bytes"], nullptr);
  EXPECT_EQ(tenants[1]["quota_bytes"], 4 << 20);
}

TEST_F(ToolsTest, AFileThatCannotBeReadIsNotReloadedAndTheDaemonServesOn) {
  std::filesystem::remove(daemon_.config());
  std::filesystem::create_directory(daemon_.config());
  ::kill(daemon_.process(), SIGHUP);
  ASSERT_TRUE(eventually([&] { return daemon_.event("configuration not reloaded").has_value(); }));
  EXPECT_EQ(json_of("stat --json" + socket())["store"]["objects"], 10);
  EXPECT_EQ(daemon_.end(SIGTERM), 0);
}

TEST(ReloadTest, TheCommandLinesLevelOfTheLogStays) {
  const DaemonProcess daemon("", DaemonProcess::one_pool, "info");
  std::string config = bytes_of_file(daemon.config());
  const std::string log = "[log]\n";
  config.replace(config.find(log), log.size(), log + "level = \"error\"\n");
  std::ofstream(daemon.config()) << config;
  ::kill(daemon.process(), SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.event("reloaded").has_value(); }));
}

TEST_F(ToolsTest, MetricsFollowPrometheusConventions) {
  const std::uint16_t port = daemon_.event("serving")->at("metrics_port");
  const std::string body = scrape(port);
  EXPECT_NE(body.find("\nnearkv_objects 10\n"), std::string::npos) << body;
  EXPECT_NE(body.find("\nnearkv_tenant_sets_total{tenant=\"tenant-1\"} 10\n"), std::string::npos);
  EXPECT_NE(body.find("\nnearkv_job_duration_seconds_count{kind=\"set\"} 10\n"), std::string::npos);
  const std::regex type("# TYPE (nearkv_[a-z_]+) ([a-z]+)");
  std::size_t families = 0;
  for (auto found = std::sregex_iterator(body.begin(), body.end(), type);
       found != std::sregex_iterator(); ++found, ++families) {
    const std::string name = (*found)[1];
    const bool is_counter = (*found)[2] == "counter";
    EXPECT_EQ(is_counter, name.ends_with("_total")) << name;
    EXPECT_NE(body.find("# HELP " + name + " "), std::string::npos) << name;
  }
  EXPECT_GT(families, 30U);
}

TEST_F(ToolsTest, TheDashboardNamesOnlyMetricsThatThereAre) {
  const std::string body = scrape(daemon_.event("serving")->at("metrics_port"));
  std::ifstream file(NEARKV_SHARE "/grafana.json");
  const Json dashboard = Json::parse(file);
  const std::regex name("nearkv_[a-z_]+");
  std::set<std::string> named;
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel.value("targets", Json::array())) {
      const std::string expression = target["expr"];
      for (auto found = std::sregex_iterator(expression.begin(), expression.end(), name);
           found != std::sregex_iterator(); ++found) {
        named.insert(found->str());
      }
    }
  }
  EXPECT_GT(named.size(), 15U);
  for (const std::string& metric : named) {
    EXPECT_TRUE(body.find("\n" + metric + " ") != std::string::npos ||
                body.find("\n" + metric + "{") != std::string::npos)
        << metric;
  }
}

}  // namespace
}  // namespace nearkv::test

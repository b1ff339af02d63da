#include "share/etcd_client.hpp"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>

namespace nearkv {
namespace {

using Json = nlohmann::json;

using namespace nlohmann::literals;

constexpr long kTimeoutMs = 2000;

std::string base64(const std::string& text) {
  std::string out(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

std::optional<std::string> from_base64(const std::string& text) {
  std::string out(text.size() / 4 * 3 + 1, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(static_cast<std::size_t>(length) - padding);
  return out;
}

/// The gateway writes 64-bit numbers as text and leaves zeros out.
std::int64_t number(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  return found->is_string()
             ? std::strtoll(found->get_ref<const std::string&>().c_str(), nullptr, 10)
             : 0;
}

Json parse(const std::string& text) { return Json::parse(text, nullptr, false); }

std::size_t append(char* data, std::size_t size, std::size_t count, void* reply) {
  static_cast<std::string*>(reply)->append(data, size * count);
  return size * count;
}

Json compare(const std::string& key, const char* target, std::int64_t value) {
  return {
      {"key", base64(key)},
      {"target", target},
      {"result", "EQUAL"},
      {target == std::string("MOD") ? "mod_revision" : "create_revision", std::to_string(value)}};
}

}  // namespace

struct EtcdClient::Connection {
  CURL* curl = curl_easy_init();
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  std::size_t endpoint = 0;
};

EtcdClient::EtcdClient(std::vector<std::string> endpoints)
    : endpoints_(std::move(endpoints)), connection_(std::make_unique<Connection>()) {}

EtcdClient::~EtcdClient() {
  curl_slist_free_all(connection_->headers);
  curl_easy_cleanup(connection_->curl);
}

Status EtcdClient::post(const std::string& path, const std::string& body, std::string* reply) {
  CURL* const curl = connection_->curl;
  if (curl == nullptr) return Status::kOutOfMemory;
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, connection_->headers);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::string url = endpoints_[connection_->endpoint] + path;
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    reply->clear();
    long code = 0;
    if (curl_easy_perform(curl) == CURLE_OK &&
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code) == CURLE_OK && code < 500) {
      return code == 200 ? Status::kOk : Status::kNotFound;
    }
    connection_->endpoint = (connection_->endpoint + 1) % endpoints_.size();
  }
  return Status::kIoError;
}

Status EtcdClient::get(const std::string& key, EtcdValue* value) {
  std::string reply;
  const Status status = post("/v3/kv/range", Json{{"key", base64(key)}}.dump(), &reply);
  if (status != Status::kOk) return Status::kIoError;
  const Json json = parse(reply);
  if (!json.is_object()) return Status::kIoError;
  *value = {};
  if (!json.contains("kvs") || json["kvs"].empty()) return Status::kOk;
  const Json& found = json["kvs"][0];
  value->mod_revision = number(found, "mod_revision");
  const std::optional<std::string> text = from_base64(found.value("value", ""));
  if (!text) return Status::kIoError;
  value->value = *text;
  return Status::kOk;
}

Status EtcdClient::put(const std::string& key, const std::string& value, std::int64_t lease,
                       const Json& compares) {
  const Json put = {
      {"key", base64(key)}, {"value", base64(value)}, {"lease", std::to_string(lease)}};
  const Json body = {{"compare", compares},
                     {"success", Json::array({{{"request_put", put}}})},
                     {"failure", Json::array({{{"request_range", {{"key", base64(key)}}}}})}};
  std::string reply;
  if (post("/v3/kv/txn", body.dump(), &reply) != Status::kOk) return Status::kIoError;
  const Json json = parse(reply);
  if (!json.is_object()) return Status::kIoError;
  if (json.value("succeeded", false)) return Status::kOk;
  const Json held = json.value("/responses/0/response_range/kvs/0"_json_pointer, Json::object());
  const bool is_ours = held.value("value", "") == base64(value) && number(held, "lease") == lease;
  return is_ours ? Status::kOk : Status::kExists;
}

Status EtcdClient::put_if(const std::string& key, std::int64_t mod_revision,
                          const std::string& value, const std::string& absent) {
  Json compares = Json::array({compare(key, "MOD", mod_revision)});
  if (!absent.empty()) compares.push_back(compare(absent, "CREATE", 0));
  return put(key, value, 0, compares);
}

Status EtcdClient::put_leased(const std::string& key, const std::string& value,
                              std::int64_t lease) {
  return put(key, value, lease, Json::array({compare(key, "CREATE", 0)}));
}

Status EtcdClient::grant_lease(std::int64_t ttl_s, std::int64_t* lease) {
  std::string reply;
  const Json body = {{"TTL", std::to_string(ttl_s)}};
  if (post("/v3/lease/grant", body.dump(), &reply) != Status::kOk) return Status::kIoError;
  const Json json = parse(reply);
  *lease = json.is_object() ? number(json, "ID") : 0;
  return *lease != 0 ? Status::kOk : Status::kIoError;
}

Status EtcdClient::keep_alive(std::int64_t lease) {
  std::string reply;
  const Json body = {{"ID", std::to_string(lease)}};
  if (post("/v3/lease/keepalive", body.dump(), &reply) != Status::kOk) return Status::kIoError;
  const Json json = parse(reply);
  if (!json.is_object() || !json.contains("result")) return Status::kIoError;
  return number(json["result"], "TTL") > 0 ? Status::kOk : Status::kNotFound;
}

Status EtcdClient::revoke(std::int64_t lease) {
  std::string reply;
  const Json body = {{"ID", std::to_string(lease)}};
  return post("/v3/lease/revoke", body.dump(), &reply);
}

}  // namespace nearkv

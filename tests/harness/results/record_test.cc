// Records survive a round trip through JSON, and their fields are those of the
// schema that other languages read.
#include "harness/results/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "harness/registry/registry.h"
#include "tests/places.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

Json ReadJson(const fs::path& path) {
  std::ifstream stream(path);
  return Json::parse(stream, nullptr, false);
}

std::vector<Json> CommittedRecords() {
  std::vector<Json> records;
  for (const auto& entry : fs::recursive_directory_iterator(
           fs::path(kSourceFolder) / "reports" / "results")) {
    if (entry.path().extension() != ".json") continue;
    const Json file = ReadJson(entry.path());
    if (!file.is_object() || file.value("format", "") != "results/1") continue;
    for (const Json& record : file["records"]) records.push_back(record);
  }
  return records;
}

// Sorts the fields, because peers' records have another order.
std::string Sorted(const Json& record) { return nlohmann::json(record).dump(); }

TEST(Records, OfCommittedFilesSurviveARoundTripBitForBit) {
  int64_t ours = 0, peers = 0;
  for (const Json& json : CommittedRecords()) {
    const Record record = RecordOf(json, "record");
    EXPECT_EQ(Sorted(ToJson(record)), Sorted(json));
    if (record.check.mistakes) {
      EXPECT_EQ(ToJson(record).dump(), json.dump());
      ++ours;
    } else {
      ++peers;
    }
  }
  EXPECT_GT(ours, 1000);
  EXPECT_GT(peers, 100);
}

Record Example() {
  const Case test_case = MakeCase(ParseCaseId(
      "softmax_attention:n=8,d=4,heads=2,causal=1,with=bias,seed=7"));
  Verdict verdict{.outcome = Outcome::kMistrusted,
                  .cause = Reason::kCannotTell,
                  .reason = "why"};
  verdict.comparison.elements = 64;
  verdict.margin.blind_to = {{"transposed", 0.5, ""}};
  Record record =
      MakeRecord(test_case, ProblemOf(test_case),
                 *ImplementationsOf(*test_case.op).front(), 3, verdict);
  record.device = RecordedDevice{.clock = "events",
                                 .cache = "flushed",
                                 .upload_seconds = 0.25,
                                 .after = std::optional<DeviceState>()};
  record.seconds = Times{{1, 2, 3}, {2, 1}, "budget"};
  return record;
}

TEST(Records, SurviveARoundTrip) {
  const Record record = Example();
  const Json json = ToJson(record);
  EXPECT_EQ(json.at("params").at("with"), Json({"bias"}));
  EXPECT_TRUE(json.at("device").at("after").is_null());
  EXPECT_EQ(ToJson(RecordOf(json, "record")).dump(), json.dump());
}

TEST(Records, AreRefusedWithTheFieldsName) {
  const Json right = ToJson(Example());
  const auto message_of = [](const Json& json) -> std::string {
    try {
      RecordOf(json, "file.json: record 3");
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message_of(right), "");
  for (const auto& [name, value] : right.items()) {
    Json missing = right;
    missing.erase(name);
    Json wrong = right;
    wrong[name] = Json::array({Json::object()});
    const std::string start = "file.json: record 3: " + name;
    EXPECT_TRUE(message_of(wrong).starts_with(start)) << message_of(wrong);
    if (!std::set<std::string>{"input", "device"}.contains(name)) {
      EXPECT_EQ(message_of(missing),
                start + ": expected this field, found none");
    }
  }
  Json more = right;
  more["time"] = 1;
  EXPECT_EQ(message_of(more),
            "file.json: record 3: time: expected no such field, found 1");
  Json nested = right;
  nested["check"]["verdict"] = "fine";
  EXPECT_TRUE(
      message_of(nested).starts_with("file.json: record 3: check: verdict: "))
      << message_of(nested);
  EXPECT_NE(message_of(Json("text")), "");
}

// Returns the definition that a `$ref` names.
Json Resolved(const Json& schema, const Json& node) {
  if (!node.contains("$ref")) return node;
  const std::string name = node["$ref"];
  return schema.at("$defs").at(name.substr(name.rfind('/') + 1));
}

bool IsNullable(const Json& schema, const Json& node) {
  const Json target = Resolved(schema, node);
  for (const Json& option : target.value("anyOf", Json::array()))
    if (IsNullable(schema, option)) return true;
  const Json types = target.value("type", Json::array());
  const Json values = target.value("enum", Json::array());
  return (types.is_array() && std::ranges::count(types, Json("null")) > 0) ||
         std::ranges::count(values, Json(nullptr)) > 0;
}

// Collects the fields of an object of the schema and of the objects in it.
// `path` is in front of their names.
void Collect(const Json& schema, const Json& node, const std::string& path,
             std::vector<JsonField>& fields) {
  const Json object = Resolved(schema, node);
  if (!object.contains("properties") ||
      object.value("additionalProperties", Json(true)) != Json(false))
    return;
  const Json required = object.value("required", Json::array());
  for (const auto& [name, property] : object["properties"].items()) {
    fields.push_back({path + name, std::ranges::count(required, Json(name)) > 0,
                      IsNullable(schema, property)});
    Collect(schema, property, path + name + ".", fields);
  }
}

TEST(Records, HaveTheFieldsOfTheSchema) {
  const Json schema = ReadJson(fs::path(kSourceFolder) / "reports" / "files" /
                               "results.schema.json");
  std::vector<JsonField> expected;
  Collect(schema, schema.at("$defs").at("record"), "", expected);
  std::map<std::string, JsonField> by_path;
  for (const JsonField& field : expected) by_path[field.path] = field;
  for (const JsonField& field : FieldsOfRecords()) {
    ASSERT_TRUE(by_path.contains(field.path)) << field.path;
    EXPECT_EQ(field.required, by_path[field.path].required) << field.path;
    EXPECT_EQ(field.nullable, by_path[field.path].nullable) << field.path;
    by_path.erase(field.path);
  }
  for (const auto& [path, field] : by_path)
    EXPECT_TRUE(path.starts_with("seconds.")) << path;  // Times has its own
}

}  // namespace
}  // namespace subquad

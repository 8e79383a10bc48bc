#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace ridgeline {
namespace {

TEST(Json, ListsOfPairsAreObjectsAndOtherListsArrays) {
  const Json object = {{"a", 1}, {"b", {1, 2}}, {"c", {{"d", nullptr}}}};
  EXPECT_EQ(object.dump(), R"({"a":1,"b":[1,2],"c":{"d":null}})");
  EXPECT_TRUE(Json({1, "two"}).is_array());
  EXPECT_TRUE(Json::array({Json::array({"a", 1})}).is_array()) << "array() never makes an object";
}

TEST(Json, KeepsTheOrderOfKeysAndSortsACopy) {
  Json object = {{"z", 1}, {"a", {{"y", 1}, {"b", 2}}}};
  object["m"] = 3;
  EXPECT_EQ(object.dump(), R"({"z":1,"a":{"y":1,"b":2},"m":3})");
  EXPECT_EQ(object.sorted().dump(), R"({"a":{"b":2,"y":1},"m":3,"z":1})");
}

TEST(Json, NumbersSurviveAndCompareByValue) {
  for (const double value : {0.1, 1e300, -2.5e-310, 3.0})
    EXPECT_EQ(Json::parse(Json(value).dump()).get<double>(), value);
  EXPECT_EQ(Json::parse(Json(UINT64_MAX).dump()).get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
}

TEST(Json, ValueFallsBackWhereAMemberIsMissingOrOfAnotherKind) {
  const Json object = {{"number", 7}, {"text", "x"}};
  EXPECT_EQ(object.value("number", 0), 7);
  EXPECT_EQ(object.value("text", 3), 3);
  EXPECT_EQ(object.value("none", "word"), "word");
  EXPECT_EQ(Json(5).value("number", 1), 1) << "scalars have no members";
}

TEST(Json, WrongKindsAreErrorsWithTheKindInThem) {
  const Json object = {{"a", "text"}};
  EXPECT_THROW(object.at("b"), Error);
  EXPECT_THROW(object.at("a").get<int>(), Error);
  EXPECT_THROW(object.at(size_t{0}), Error);
  EXPECT_THROW(Json(1)["a"] = 2, Error);
}

TEST(Json, NumbersThatATypeCannotHoldAreErrors) {
  const Json object = Json::parse(
      R"({"int":4294967296,"low":-1,"high":18446744073709551615,"huge":1e300,"half":2.5,"edge":9223372036854775808.0})");
  EXPECT_THROW(object["int"].get<int>(), Error);
  EXPECT_THROW(object["low"].get<uint64_t>(), Error);
  EXPECT_THROW(object["high"].get<int64_t>(), Error);
  EXPECT_THROW(object["huge"].get<int64_t>(), Error);
  EXPECT_THROW(object["edge"].get<int64_t>(), Error);
  EXPECT_THROW(Json(std::numeric_limits<double>::quiet_NaN()).get<int>(), Error);
  EXPECT_EQ(object["edge"].get<uint64_t>(), uint64_t{1} << 63);
  EXPECT_EQ(object["half"].get<int>(), 2);
  EXPECT_EQ(object["high"].get<double>(), 0x1p64);
  EXPECT_EQ(object.value("int", 3), 3);
  EXPECT_EQ(object.value("huge", int64_t{3}), 3);
}

TEST(Json, StreamedMembersAreHandedOverAndNotKept) {
  std::string many;
  for (int i = 0; i <= Json::kMaxKeys; ++i) many += "\"k" + std::to_string(i) + "\":1,";
  const std::string text =
      R"({"a":{"big":{)" + many + R"("last":[1,2]},"list":["x",{"y":2}]},"big":{"z":3}})";
  EXPECT_THROW(Json::parse(text), JsonError) << "it has too many keys to be kept";
  int members = 0;
  std::string last, elements;
  const Json::Streamed streamed[] = {
      {{"a", "big"},
       [&](const std::string& key, const Json& element) {
         ++members;
         last = key + element.dump();
       }},
      {{"a", "list"},
       [&](const std::string& key, const Json& element) { elements += key + element.dump(); }}};
  const Json kept = Json::parse(text, streamed);
  EXPECT_EQ(members, Json::kMaxKeys + 2);
  EXPECT_EQ(last, "last[1,2]");
  EXPECT_EQ(elements, R"("x"{"y":2})");
  EXPECT_EQ(kept.dump(), R"({"a":{"big":{},"list":[]},"big":{"z":3}})");
}

TEST(Json, ElementsAndMembersAreWalkedOver) {
  int sum = 0;
  for (const Json& element : Json::parse("[1,2,3]")) sum += element.get<int>();
  const Json object = {{"k", 9}};
  for (const auto& [key, value] : object.items()) sum += key == "k" ? value.get<int>() : 100;
  for (const Json& none : object) sum += static_cast<int>(none.size()) + 1000;
  for (const Json& none : Json("text")) sum += static_cast<int>(none.size()) + 1000;
  EXPECT_EQ(sum, 15);
}

TEST(Json, HostileTextIsRefusedWithoutDeepStacks) {
  EXPECT_THROW(Json::parse(std::string(200'000, '[')), JsonError);
  EXPECT_THROW(Json::parse(R"({"a":1)"), JsonError);
  EXPECT_FALSE(Json::try_parse("{]"));
  std::string keys = "{";
  for (int i = 0; i <= Json::kMaxKeys; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  keys.back() = '}';
  EXPECT_THROW(Json::parse(keys), JsonError);
  // Many objects with few keys each are an array of records, and cost no comparisons.
  std::string many = "[";
  for (int i = 0; i <= Json::kMaxKeys; ++i) many += R"({"a":0},)";
  many.back() = ']';
  EXPECT_EQ(Json::parse(many).size(), static_cast<size_t>(Json::kMaxKeys) + 1);
}

TEST(Json, AKeyGivenTwiceIsAnError) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      Json::parse(text);
      return "";
    } catch (const JsonError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(problem(R"({"a":1,"b":{"a":2}})"), "");
  EXPECT_EQ(problem(R"({"a":1,"b":2,"a":1})"), "has 'a' twice");
  EXPECT_EQ(problem(R"([{"x":{"\u001b":0,"\u001b":0}}])"), "has '\\x1b' twice");
  EXPECT_EQ(problem("{]"), "is not JSON from byte 2 on");
}

TEST(Json, TextDoesNotEndAtAZeroByte) {
  for (const char* rest : {"", "\n", "{", R"({"a":2})"}) {
    const std::string text = std::string("{\"a\":1}") + '\0' + rest;
    try {
      Json::parse(text);
      FAIL() << "was accepted: " << rest;
    } catch (const JsonError& error) {
      EXPECT_STREQ(error.what(), "is not JSON from byte 8 on");
    }
  }
}

TEST(Json, AStreamedElementHasAnUpperBound) {
  const auto parse = [](size_t values) {
    std::string text = R"({"kept":[0],"big":[1,[)";
    for (size_t i = 0; i < values; ++i) text += i == 0 ? "1" : ",1";
    size_t elements = 0;
    const Json::Streamed streamed[] = {
        {{"big"}, [&](const std::string&, const Json&) { ++elements; }}};
    Json::parse(text + "],[2]]}", streamed);
    return elements;
  };
  EXPECT_EQ(parse(Json::kMaxStreamedValues), 3u);
  EXPECT_THROW(parse(Json::kMaxStreamedValues + 1), JsonError);
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("\xC3\xA4").dump_ascii(), R"("\u00e4")");
}

}  // namespace
}  // namespace ridgeline

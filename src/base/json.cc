#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

using Library = nlohmann::ordered_json;

JsonError no_json(size_t position) {
  return JsonError(fmt::format("is not JSON from byte {} on", position));
}

// Builds a value from the library's SAX events and enforces the limits on text.
class Builder : public nlohmann::json_sax<Library> {
 public:
  explicit Builder(std::span<const Json::Streamed> streamed) : streamed_(streamed) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool binary(Library::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& text) override {
    if (!open_.back().streamed && ++open_.back().keys > Json::kMaxKeys)
      throw JsonError(fmt::format("has more than {} keys", Json::kMaxKeys));
    open_.back().key = std::move(text);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Library::exception&) override {
    throw no_json(position);
  }

 private:
  struct Open {
    Json value;
    const Json::Streamed* streamed;
    std::string key = {};  // of the next member
    int keys = 0;          // number so far
  };

  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.streamed) {
      parent.streamed->use(parent.key, value);
      values_of_element_ = 0;
      return true;
    }
    if (is_streaming_ && ++values_of_element_ > Json::kMaxStreamedValues)
      throw JsonError(
          fmt::format("has an element of more than {} values", Json::kMaxStreamedValues));
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
    } else {
      if (parent.value.contains(parent.key))
        throw JsonError(fmt::format("has '{}' twice", printable(parent.key, 80)));
      parent.value[parent.key] = std::move(value);
    }
    return true;
  }
  bool open(Json value) {
    if (open_.size() == Json::kMaxDepth)
      throw JsonError(fmt::format("is nested deeper than {} levels", Json::kMaxDepth));
    open_.push_back({std::move(value), streamed_here()});
    is_streaming_ = is_streaming_ || open_.back().streamed;
    return true;
  }
  // The Streamed whose path matches the value being opened; null: the value is kept.
  const Json::Streamed* streamed_here() const {
    const auto is_here = [&](const Json::Streamed& each) {
      return std::ranges::equal(each.path, open_, {}, {}, &Open::key);
    };
    const auto found = std::ranges::find_if(streamed_, is_here);
    return found == streamed_.end() ? nullptr : &*found;
  }
  bool close() {
    if (open_.back().streamed) is_streaming_ = false;
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  std::span<const Json::Streamed> streamed_;
  Json root_;
  std::vector<Open> open_;
  bool is_streaming_ = false;  // within a streamed member
  int values_of_element_ = 0;  // parsed so far of the streamed element
};

Library to_library(const Json& json) {
  if (json.is_object()) {
    Library out = Library::object();
    // Keys are unique already; the library's own insertion would compare each with all before it.
    auto& members = out.get_ref<Library::object_t&>();
    members.reserve(json.size());
    for (const auto& [key, value] : json.items())
      static_cast<std::vector<Library::object_t::value_type>&>(members).emplace_back(
          key, to_library(value));
    return out;
  }
  if (json.is_array()) {
    Library out = Library::array();
    for (const Json& element : json) out.push_back(to_library(element));
    return out;
  }
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.text();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  return nullptr;
}

std::string written(const Json& json, int indent, bool ascii) {
  return to_library(json).dump(indent, ' ', ascii, Library::error_handler_t::replace);
}

}  // namespace

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(std::in_place_t, bool value) : value_(value) {}
Json::Json(std::in_place_t, int64_t value) : value_(value) {}
Json::Json(std::in_place_t, uint64_t value) : value_(value) {
  if (std::in_range<int64_t>(value)) value_ = static_cast<int64_t>(value);
}
Json::Json(std::in_place_t, double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}

Json::Json(std::initializer_list<Json> list) {
  const bool pairs = std::all_of(list.begin(), list.end(), [](const Json& element) {
    return element.is_array() && element.size() == 2 && element[0].is_string();
  });
  if (!pairs) {
    value_ = Array(list);
    return;
  }
  value_ = Object();
  for (const Json& pair : list) (*this)[pair[0].text()] = pair[1];
}

Json Json::array(std::initializer_list<Json> list) {
  Json out;
  out.value_ = Array(list);
  return out;
}

Json Json::object() {
  Json out;
  out.value_ = Object();
  return out;
}

Json Json::parse(std::string_view text) {
  return parse(text, {});
}

Json Json::parse(std::string_view text, std::span<const Streamed> streamed) {
  Builder builder(streamed);
  Library::sax_parse(text, &builder);
  // The library takes a zero byte for the end of the text and does not look at the rest.
  if (const size_t zero = text.find('\0'); zero != text.npos) throw no_json(zero + 1);
  return builder.take();
}

std::optional<Json> Json::try_parse(std::string_view text) {
  try {
    return parse(text);
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

bool Json::is_number_unsigned() const {
  const int64_t* held = std::get_if<int64_t>(&value_);
  return std::holds_alternative<uint64_t>(value_) || (held && *held >= 0);
}

bool Json::is_number_integer() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}

const char* Json::type_name() const {
  constexpr const char* kNames[] = {"null",   "boolean", "number", "number",
                                    "number", "string",  "array",  "object"};
  return kNames[value_.index()];
}

void Json::refuse(const char* expected) const {
  throw Error(ErrorKind::usage, fmt::format("JSON holds {}: expected {}", type_name(), expected));
}

const std::string& Json::text() const {
  if (const std::string* held = std::get_if<std::string>(&value_)) return *held;
  refuse("text");
}

size_t Json::size() const {
  if (const Array* elements = std::get_if<Array>(&value_)) return elements->size();
  if (const Object* members = std::get_if<Object>(&value_)) return members->size();
  return is_null() ? 0 : 1;
}

const Json* Json::find_key(std::string_view key) const {
  if (const Object* members = std::get_if<Object>(&value_))
    for (const Member& member : *members)
      if (member.key == key) return &member.value;
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Object* members = std::get_if<Object>(&value_);
  if (!members) refuse("an object");
  if (const Json* found = find_key(key)) return const_cast<Json&>(*found);
  return members->emplace_back(Member{std::string(key), {}}).value;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find_key(key)) return *found;
  throw Error(ErrorKind::usage, fmt::format("JSON {} lacks '{}'", type_name(), key));
}

Json& Json::at(std::string_view key) {
  return const_cast<Json&>(std::as_const(*this).at(key));
}

const Json& Json::at(size_t index) const {
  const Array* elements = std::get_if<Array>(&value_);
  if (!elements || index >= elements->size())
    throw Error(ErrorKind::usage, fmt::format("JSON {} has no element {}", type_name(), index));
  return (*elements)[index];
}

void Json::push_back(Json element) {
  if (is_null()) value_ = Array();
  Array* elements = std::get_if<Array>(&value_);
  if (!elements) refuse("an array");
  elements->push_back(std::move(element));
}

Json& Json::back() {
  return const_cast<Json&>(at(size() - 1));
}

void Json::update(const Json& other) {
  for (const Member& member : other.items()) (*this)[member.key] = member.value;
}

void Json::erase(std::string_view key) {
  if (Object* members = std::get_if<Object>(&value_))
    std::erase_if(*members, [&](const Member& member) { return member.key == key; });
}

const Json* Json::begin() const {
  const Array* elements = std::get_if<Array>(&value_);
  return elements ? elements->data() : nullptr;
}

const Json* Json::end() const {
  const Array* elements = std::get_if<Array>(&value_);
  return elements ? elements->data() + elements->size() : nullptr;
}

const Json::Object& Json::items() const {
  static const Object kNone;
  const Object* members = std::get_if<Object>(&value_);
  return members ? *members : kNone;
}

std::string Json::dump(int indent) const {
  return written(*this, indent, false);
}

std::string Json::dump_ascii() const {
  return written(*this, -1, true);
}

Json Json::sorted() const {
  Json out = *this;
  if (Object* members = std::get_if<Object>(&out.value_)) {
    for (Member& member : *members) member.value = member.value.sorted();
    std::sort(members->begin(), members->end(),
              [](const Member& a, const Member& b) { return a.key < b.key; });
  } else if (Array* elements = std::get_if<Array>(&out.value_)) {
    for (Json& element : *elements) element = element.sorted();
  }
  return out;
}

bool Json::operator==(const Json& other) const {
  if (value_.index() == other.value_.index()) return value_ == other.value_;
  // 1 equals 1.0.
  return is_number() && other.is_number() && get<double>() == other.get<double>();
}

}  // namespace ridgeline

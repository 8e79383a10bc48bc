#include "measure/record_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "measure/record_fields.h"

namespace ridgeline {
namespace {

using record_fields::enum_name;
using record_fields::fields;
using record_fields::parse_enum;

// A vector of elements with a name becomes an object keyed by it; others become arrays.
template <class T>
concept Named = requires(T element) {
  element.name;
};

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

class Writer {
 public:
  template <class T>
  void operator()(const std::string& key, const T& value) {
    if constexpr (kIsOptional<T>) {
      if (value) out_[key] = json(*value);
    } else {
      out_[key] = json(value);
    }
  }

  template <class T>
  static Json json(const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      return std::isfinite(value) ? Json(value) : Json(nullptr);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      return value.count;
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(enum_name(value));
    } else if constexpr (kIsVector<T>) {
      using Element = typename T::value_type;
      Json out = Named<Element> ? Json::object() : Json::array();
      for (const Element& element : value) {
        if constexpr (Named<Element>)
          out[element.name] = json(element);
        else
          out.push_back(json(element));
      }
      return out;
    } else if constexpr (std::is_constructible_v<Json, const T&>) {
      return value;
    } else {
      Writer writer;
      fields(writer, value);
      return std::move(writer.out_);
    }
  }

  Json out_ = Json::object();
};

class Reader {
 public:
  Reader(const Json& in, std::string path) : in_(in), path_(std::move(path)) {
    if (!in.is_object()) throw mismatch_at(path_, in, "an object");
  }

  template <class T>
  void operator()(const std::string& key, T& value) {
    if (const Json* found = in_.find_key(key)) read(*found, value, join(path_, key));
  }

 private:
  // Keys come from the file, so they are bounded and made printable for messages.
  static std::string join(const std::string& parent, const std::string& key) {
    return printable(parent.empty() ? key : parent + "." + key, 80);
  }

  static Error mismatch_at(const std::string& path, const Json& actual, std::string_view expected) {
    return Error(ErrorKind::usage, fmt::format("the field '{}' holds {}: expected {}", path,
                                               actual.type_name(), expected));
  }
  static int64_t integer(const Json& in, const std::string& path) {
    const bool fits = in.is_number_integer() &&
                      !(in.is_number_unsigned() &&
                        in.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits) throw mismatch_at(path, in, "a whole number within 64 bits");
    return in.get<int64_t>();
  }

  template <class T>
  static void read(const Json& in, T& out, const std::string& path) {
    if constexpr (std::is_same_v<T, double>) {
      if (!in.is_number() && !in.is_null()) throw mismatch_at(path, in, "a number or null");
      out = in.is_null() ? Statistics::kUnknown : in.get<double>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!in.is_boolean()) throw mismatch_at(path, in, "true or false");
      out = in.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t value = integer(in, path);
      if (!std::in_range<T>(value)) throw mismatch_at(path, in, "a smaller number");
      out = static_cast<T>(value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      out.count = integer(in, path);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!in.is_string()) throw mismatch_at(path, in, "text");
      out = in.get<std::string>();
    } else if constexpr (std::is_enum_v<T>) {
      std::optional<T> value;
      if (in.is_string()) parse_enum(in.text(), value);
      if (!value) throw mismatch_at(path, in, "one of its known words");
      out = *value;
    } else if constexpr (std::is_same_v<T, Json>) {
      if (!in.is_object()) throw mismatch_at(path, in, "an object");
      out = in;
    } else if constexpr (kIsOptional<T>) {
      if (in.is_null()) return;
      out.emplace();
      read(in, *out, path);
    } else if constexpr (kIsVector<T>) {
      read_elements(in, out, path);
    } else {
      Reader reader(in, path);
      fields(reader, out);
    }
  }

  template <class Element>
  static void read_elements(const Json& in, std::vector<Element>& out, const std::string& path) {
    if (Named<Element> ? !in.is_object() : !in.is_array())
      throw mismatch_at(path, in, Named<Element> ? "an object" : "an array");
    out.clear();
    out.reserve(in.size());
    if constexpr (Named<Element>) {
      for (const auto& [key, value] : in.items()) {
        out.emplace_back().name = key;
        read(value, out.back(), join(path, key));
      }
    } else {
      for (const Json& element : in) read(element, out.emplace_back(), path);
    }
  }

  const Json& in_;
  std::string path_;
};

Error missing(const char* key) {
  return Error(ErrorKind::usage, fmt::format("the field '{}' is missing", key));
}

}  // namespace

Json to_json(const Record& record) {
  // The schema comes first, because ResultsFile recognises even a truncated line by it.
  Json out = {{"schema", kSchemaVersion}};
  out.update(Writer::json(record));
  return out;
}

Record record_from_json(const Json& json) {
  if (!json.is_object())
    throw Error(ErrorKind::usage, fmt::format("{} instead of a record", json.type_name()));
  if (!json.contains("schema")) throw missing("schema");
  if (json["schema"] != kSchemaVersion)
    throw Error(ErrorKind::usage,
                fmt::format("schema version {}: this program reads version {}",
                            printable(json["schema"].dump(), 40), kSchemaVersion));
  for (const char* key : {"study", "time", "implementation", "device", "workload", "status"})
    if (!json.contains(key)) throw missing(key);
  Record record;
  Reader reader(json, "");
  fields(reader, record);
  return record;
}

std::string to_line(const Record& record) {
  return to_json(record).dump() + "\n";
}

std::string to_lines(std::span<const Record> records) {
  std::string lines;
  for (const Record& record : records) lines += to_line(record);
  return lines;
}

std::string to_array(std::span<const Record> records) {
  Json all = Json::array();
  for (const Record& record : records) all.push_back(to_json(record));
  return all.dump(1) + "\n";
}

}  // namespace ridgeline

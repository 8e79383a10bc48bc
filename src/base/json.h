// A JSON value, for records, answers of peers and reports.
//
//   Json workload = {{"batch_size", 8}, {"dtype", "fp32"}};
//   workload["seq_len"] = 1024;
//   const int batch = workload.value("batch_size", 0);
//   const std::string line = workload.dump();
//
// Objects keep the order in which keys were added. Only json.cc includes the library that parses
// and writes text, because including it everywhere took a third of the build time.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ridgeline {

// Thrown for text that is not JSON, has a key twice or exceeds a limit. what() completes a sentence
// about the text: "is not JSON from byte 17 on", "has 'shape' twice".
class JsonError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  // Limits on hostile text: a level costs a stack frame, a key a comparison with each earlier key
  // of its object.
  static constexpr int kMaxDepth = 64;
  static constexpr int kMaxKeys = 10'000;
  static constexpr int kMaxStreamedValues = 1 << 20;  // in one element of a streamed member

  // Defined in json.cc: inlined, copies and destructors of the variant were a large part of every
  // file that fills in records.
  Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t);
  template <std::integral T>
  Json(T value);
  template <std::floating_point T>
  Json(T value);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  template <class T>
  Json(const std::vector<T>& elements);
  template <class T, size_t N>
  Json(const std::array<T, N>& elements);
  // A list of pairs whose first elements are strings makes an object, any other list an array.
  Json(std::initializer_list<Json> list);

  static Json array(std::initializer_list<Json> list = {});
  static Json object();
  // Throws JsonError.
  static Json parse(std::string_view text);
  static std::optional<Json> try_parse(std::string_view text);
  // A member that is too large to keep, such as {"model", "vocab"}: each element is passed to `use`
  // as it is parsed, and the member itself stays empty. Its keys are neither counted nor compared.
  struct Streamed {
    std::vector<std::string> path;
    std::function<void(const std::string& key, const Json& element)> use;  // arrays: no key
  };
  static Json parse(std::string_view text, std::span<const Streamed> streamed);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_number_unsigned() const;  // a whole number that is not negative
  bool is_number_integer() const;
  bool is_number() const { return is_number_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* type_name() const;  // "object", "number", ...

  // The value as a T; throws a usage error if it has another type or is a number that no T holds.
  template <class T>
  T get() const;
  const std::string& text() const;

  // ---- arrays and objects.

  size_t size() const;  // 0 for null, 1 for other scalars
  bool empty() const { return size() == 0; }
  bool contains(std::string_view key) const { return find_key(key) != nullptr; }
  // Null if there is no such member.
  const Json* find_key(std::string_view key) const;
  // A member of an object, added if missing. A null becomes an object.
  Json& operator[](std::string_view key);
  template <size_t N>
  Json& operator[](const char (&key)[N]) {
    return (*this)[std::string_view(key)];
  }
  // These throw a usage error if there is no such element.
  const Json& operator[](std::string_view key) const { return at(key); }
  template <size_t N>
  const Json& operator[](const char (&key)[N]) const {
    return at(std::string_view(key));
  }
  const Json& operator[](size_t index) const { return at(index); }
  const Json& operator[](int index) const { return at(static_cast<size_t>(index)); }
  const Json& at(std::string_view key) const;
  const Json& at(size_t index) const;
  Json& at(std::string_view key);
  // The member as a T, or `otherwise` if it is missing, has another type or is a number that no T
  // holds.
  template <class T>
  T value(std::string_view key, T otherwise) const;
  std::string value(std::string_view key, const char* otherwise) const {
    return value(key, std::string(otherwise));
  }

  void push_back(Json element);  // a null becomes an array
  Json& back();
  void update(const Json& other);  // adds or replaces the members of `other`
  void erase(std::string_view key);

  // The elements of an array; other values have none.
  const Json* begin() const;
  const Json* end() const;
  // for (const auto& [key, value] : json.items()); empty for all but objects.
  const Object& items() const;

  // One line, or one line per element if indented; invalid UTF-8 is replaced.
  std::string dump(int indent = -1) const;
  std::string dump_ascii() const;
  Json sorted() const;  // with the keys of all objects sorted

  bool operator==(const Json& other) const;

 private:
  Json(std::in_place_t, bool value);
  Json(std::in_place_t, int64_t value);
  Json(std::in_place_t, uint64_t value);  // stored as signed if it fits
  Json(std::in_place_t, double value);
  [[noreturn]] void refuse(const char* expected) const;
  // Nullopt if it is no number, or one out of range of T. Fractions are cut off for integers.
  template <class T>
  std::optional<T> number() const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string key;
  Json value;
  bool operator==(const Member&) const = default;
};

template <std::floating_point T>
Json::Json(T value) : Json(std::in_place, static_cast<double>(value)) {}
template <class T>
Json::Json(const std::vector<T>& elements) : Json(array()) {
  for (const auto& element : elements) push_back(Json(element));
}
template <class T, size_t N>
Json::Json(const std::array<T, N>& elements) : Json(array()) {
  for (const T& element : elements) push_back(Json(element));
}

template <std::integral T>
Json::Json(T value)
    : Json(std::in_place,
           static_cast<
               std::conditional_t<std::is_same_v<T, bool>, bool,
                                  std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>>(
               value)) {}

template <class T>
std::optional<T> Json::number() const {
  const auto converted = [](auto held) -> std::optional<T> {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<decltype(held)>) {
      if (!std::in_range<T>(held)) return std::nullopt;
    } else if constexpr (std::is_integral_v<T>) {
      // The power of two above the largest T is exact as a double, the largest T may not be.
      const double end = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
      if (!(held >= static_cast<double>(std::numeric_limits<T>::min()) && held < end))
        return std::nullopt;
    }
    return static_cast<T>(held);
  };
  if (const int64_t* held = std::get_if<int64_t>(&value_)) return converted(*held);
  if (const uint64_t* held = std::get_if<uint64_t>(&value_)) return converted(*held);
  if (const double* held = std::get_if<double>(&value_)) return converted(*held);
  return std::nullopt;
}

template <class T>
T Json::get() const {
  if constexpr (std::is_same_v<T, bool>) {
    if (const bool* held = std::get_if<bool>(&value_)) return *held;
    refuse("true or false");
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (const std::optional<T> held = number<T>()) return *held;
    refuse(is_number() ? "a number in range" : "a number");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text();
  } else {
    if (!is_array()) refuse("an array");
    T elements;
    for (const Json& element : *this) elements.push_back(element.get<typename T::value_type>());
    return elements;
  }
}

template <class T>
T Json::value(std::string_view key, T otherwise) const {
  const Json* found = find_key(key);
  if (!found) return otherwise;
  if constexpr (std::is_same_v<T, bool>)
    return found->is_boolean() ? found->get<T>() : otherwise;
  else if constexpr (std::is_arithmetic_v<T>)
    return found->number<T>().value_or(otherwise);
  else if constexpr (std::is_same_v<T, std::string>)
    return found->is_string() ? found->get<T>() : otherwise;
  else
    return *found;
}

}  // namespace ridgeline

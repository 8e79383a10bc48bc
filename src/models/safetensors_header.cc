// The header of a safetensors file, read as a stream of JSON events so that a hostile one builds
// nothing larger than itself.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/sort_by.h"
#include "models/safetensors.h"

namespace ridgeline {
namespace {

struct StoredDType {
  std::string_view name;
  int bits;
};
constexpr StoredDType kDTypes[] = {{"F64", 64}, {"F32", 32},    {"F16", 16},   {"BF16", 16},
                                   {"I64", 64}, {"I32", 32},    {"I16", 16},   {"I8", 8},
                                   {"U64", 64}, {"U32", 32},    {"U16", 16},   {"U8", 8},
                                   {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}};

Error bad(const std::string& problem) {
  return {ErrorKind::usage, "the header of safetensors " + problem,
          "the file is damaged or not what it says; get it again"};
}

// Receives JSON events. The only shapes that occur: {name: {key: string | [numbers]}}.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (depth_ == 2 || in_array_) throw unexpected("an object");
    ++depth_;
    fields_ = 0;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_ && fields_ != kAllFields)
      throw bad(
          fmt::format("lacks dtype, shape or data_offsets for '{}'", shown_name(tensor_.name)));
    if (depth_ == 2 && !in_metadata_) header_.tensors.push_back(std::move(tensor_));
    in_metadata_ = in_metadata_ && depth_ != 2;
    --depth_;
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    if (depth_ != 1) return true;
    if (!names_.insert(text).second) throw bad(fmt::format("names '{}' twice", shown_name(text)));
    in_metadata_ = text == "__metadata__";
    tensor_ = {};
    tensor_.name = text;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != 2 || in_array_) throw unexpected("a string");
    if (in_metadata_) {
      if (!header_.metadata.emplace(key_, text).second)
        throw bad(fmt::format("names '{}' twice", shown_name(key_)));
      return true;
    }
    if (key_ != "dtype") throw unexpected("a string");
    set_field(kDType);
    tensor_.dtype = text;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata_) throw unexpected("a list");
    if (key_ != "shape" && key_ != "data_offsets") throw unexpected("a list");
    set_field(key_ == "shape" ? kShape : kOffsets);
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (key_ == "shape") {
      tensor_.shape = numbers_;
    } else if (numbers_.size() == 2) {
      tensor_.begin = numbers_[0];
      tensor_.end = numbers_[1];
    } else {
      throw bad(fmt::format("gives '{}' {} data_offsets, expected 2", shown_name(tensor_.name),
                            numbers_.size()));
    }
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_array_) throw unexpected("a number");
    if (value > INT64_MAX) throw bad(fmt::format("has {}, which is too large", value));
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(int64_t value) override {
    throw bad(fmt::format("has {} for '{}', expected no negative number", value,
                          shown_name(tensor_.name)));
  }
  bool number_float(double, const std::string& text) override {
    throw bad(fmt::format("has {} for '{}', expected a whole number", shown_name(text),
                          shown_name(tensor_.name)));
  }
  bool null() override { throw unexpected("null"); }
  bool boolean(bool) override { throw unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { throw unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw bad(fmt::format("is no JSON at byte {}", position));
  }

 private:
  enum Field : unsigned { kDType = 1, kShape = 2, kOffsets = 4, kAllFields = 7 };

  void set_field(Field field) {
    if ((fields_ & field) != 0)
      throw bad(fmt::format("gives '{}' {} twice", shown_name(tensor_.name), shown_name(key_)));
    fields_ |= field;
  }
  Error unexpected(const char* what) const {
    return bad(fmt::format("has {} at '{}' of '{}', where the format has none", what,
                           shown_name(key_), shown_name(tensor_.name)));
  }

  SafetensorsHeader header_;
  StoredTensor tensor_;
  std::set<std::string> names_;
  std::string key_;
  std::vector<int64_t> numbers_;
  int depth_ = 0;
  unsigned fields_ = 0;
  bool in_array_ = false;
  bool in_metadata_ = false;
};

int64_t expected_bytes(const StoredTensor& tensor) {
  const auto dtype =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&](const StoredDType& each) { return each.name == tensor.dtype; });
  if (dtype == std::end(kDTypes))
    throw bad(fmt::format("gives '{}' the dtype '{}', which is unknown", shown_name(tensor.name),
                          shown_name(tensor.dtype)));
  int64_t bytes = dtype->bits / 8;
  bool overflows = false;
  for (int64_t size : tensor.shape)
    overflows = overflows || __builtin_mul_overflow(bytes, size, &bytes);
  if (overflows)
    throw bad(fmt::format("gives '{}' a shape of more elements than can be counted",
                          shown_name(tensor.name)));
  return bytes;
}

}  // namespace

std::string shown_name(std::string_view name) {
  return printable(name, 80);
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes) {
  if (text.empty() || text[0] != '{') throw bad("does not begin with '{'");
  HeaderReader reader;
  nlohmann::json::sax_parse(text, &reader);
  SafetensorsHeader header = reader.take();
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin > tensor.end || tensor.end > data_bytes)
      throw bad(fmt::format("puts '{}' at bytes [{}, {}) of {}", shown_name(tensor.name),
                            tensor.begin, tensor.end, data_bytes));
    if (tensor.end - tensor.begin != expected_bytes(tensor))
      throw bad(fmt::format("gives '{}' {} bytes, but its shape has {}", shown_name(tensor.name),
                            tensor.end - tensor.begin, expected_bytes(tensor)));
  }
  sort_by(header.tensors, [](const StoredTensor& tensor) {
    return std::tie(tensor.begin, tensor.end, tensor.name);
  });
  int64_t covered = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin != covered)
      throw bad(fmt::format("leaves {} in front of '{}': its bytes begin at {}, expected {}",
                            tensor.begin < covered ? "an overlap" : "a gap",
                            shown_name(tensor.name), tensor.begin, covered));
    covered = tensor.end;
  }
  if (covered != data_bytes)
    throw bad(
        fmt::format("describes {} bytes of tensors, but the file has {}", covered, data_bytes));
  return header;
}

std::string safetensors_header_text(std::span<const Parameter> parameters,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t begin = 0;
  for (const Parameter& parameter : parameters) {
    const int64_t end = begin + element_count(parameter.shape) * info(DType::f32).size;
    auto& entry = header[parameter.name];
    entry["dtype"] = "F32";
    entry["shape"] = std::vector<int64_t>(parameter.shape.begin(), parameter.shape.end());
    entry["data_offsets"] = {begin, end};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that tensors are aligned
  return text;
}

}  // namespace ridgeline

// Reads, validates and writes the JSON header of a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/damaged_file.h"
#include "base/error.h"
#include "base/json.h"
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

constexpr const char* kMetadata = "__metadata__";

Error bad(const std::string& problem) {
  return damaged_file("the header of safetensors " + problem);
}

Error unexpected(const Json& value, const std::string& key, const std::string& name) {
  return bad(fmt::format("has JSON {} at '{}' of '{}', where the format has none",
                         value.type_name(), shown_name(key), shown_name(name)));
}

std::vector<int64_t> whole_numbers(const Json& list, const std::string& key,
                                   const std::string& name) {
  std::vector<int64_t> numbers;
  for (const Json& each : list) {
    if (!each.is_number()) throw unexpected(each, key, name);
    if (!each.is_number_unsigned())
      throw bad(fmt::format("has {} for '{}', expected a whole number that is not negative",
                            each.dump(), shown_name(name)));
    if (each.get<uint64_t>() > INT64_MAX)
      throw bad(fmt::format("has {}, which is too large", each.dump()));
    numbers.push_back(each.get<int64_t>());
  }
  return numbers;
}

StoredTensor tensor_from(const std::string& name, const Json& entry) {
  StoredTensor tensor;
  tensor.name = name;
  if (!entry.is_object()) throw unexpected(entry, name, name);
  for (const auto& [key, value] : entry.items()) {
    if (key == "dtype" && value.is_string()) {
      tensor.dtype = value.text();
    } else if (key == "shape" && value.is_array()) {
      tensor.shape = whole_numbers(value, key, name);
    } else if (key == "data_offsets" && value.is_array()) {
      const std::vector<int64_t> offsets = whole_numbers(value, key, name);
      if (offsets.size() != 2)
        throw bad(fmt::format("gives '{}' {} data_offsets, expected 2", shown_name(name),
                              offsets.size()));
      tensor.begin = offsets[0];
      tensor.end = offsets[1];
    } else {
      throw unexpected(value, key, name);
    }
  }
  constexpr size_t kFields = 3;
  if (entry.size() != kFields)
    throw bad(fmt::format("lacks dtype, shape or data_offsets for '{}'", shown_name(name)));
  return tensor;
}

std::map<std::string, std::string> metadata_from(const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) throw unexpected(entry, kMetadata, kMetadata);
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw unexpected(value, key, kMetadata);
    metadata.emplace(key, value.text());
  }
  return metadata;
}

// Entries are streamed, so that a hostile header builds nothing larger than itself.
SafetensorsHeader read_header(std::string_view text) {
  SafetensorsHeader header;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, const Json& entry) {
    if (!names.insert(name).second) throw bad(fmt::format("names '{}' twice", shown_name(name)));
    if (name == kMetadata)
      header.metadata = metadata_from(entry);
    else
      header.tensors.push_back(tensor_from(name, entry));
  };
  try {
    Json::parse(text, {{{{}, add}}});
  } catch (const JsonError& error) {
    throw bad(error.what());
  }
  return header;
}

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
  SafetensorsHeader header = read_header(text);
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
  Json header = Json::object();
  for (const auto& [key, value] : metadata) header[kMetadata][key] = value;
  int64_t begin = 0;
  for (const Parameter& parameter : parameters) {
    const int64_t end = begin + element_count(parameter.shape) * info(DType::f32).size;
    header[parameter.name] = {
        {"dtype", "F32"},
        {"shape", std::vector<int64_t>(parameter.shape.begin(), parameter.shape.end())},
        {"data_offsets", Json::array({begin, end})}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that tensors are aligned
  return text;
}

}  // namespace ridgeline

// Weights in files of the safetensors format, validated on reading and written atomically:
//
//   const SafetensorsFile file("model.safetensors");
//   const std::vector<float> weight = file.read_floats(file.find("lm_head.weight"));
//
// The format: eight bytes with the length of a JSON header, little-endian; the header, {name:
// {"dtype", "shape", "data_offsets"}}; then all tensors without gaps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "graph/dtype.h"
#include "models/layers.h"

namespace ridgeline {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as the format writes it: "F32", "BF16", "F16", "I32", ...
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, counted from the end of the header
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Throws a usage error for anything but a complete and consistent header of `data_bytes` bytes of
// tensors: unknown dtypes, sizes that do not fit or overflow, names given twice, gaps, overlaps.
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes);

// A name from an untrusted file, for messages: shortened, and without terminal escapes.
std::string shown_name(std::string_view name);

// The header of a file of these tensors in fp32, padded so that they are aligned.
std::string safetensors_header_text(std::span<const Parameter> parameters,
                                    const std::map<std::string, std::string>& metadata);

class SafetensorsFile {
 public:
  // Reads the header only. Throws a usage error that names the file and what is wrong with it.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // Throws a usage error if there is none.
  const StoredTensor& find(std::string_view name) const;
  std::vector<std::byte> read(const StoredTensor& tensor) const;
  // The values of an F32, BF16 or F16 tensor.
  std::vector<float> read_floats(const StoredTensor& tensor) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

// Throws a usage error for a dtype that is none of F32, BF16 and F16.
void expect_floats(const std::filesystem::path& path, const StoredTensor& tensor);

// Writes fp32 tensors; `values_of` is called for one after the other. The file is replaced
// atomically. Creates parent directories; writes to existing devices and pipes directly.
void save_weights(const std::filesystem::path& path, std::span<const Parameter> parameters,
                  const std::function<std::vector<float>(const Parameter&)>& values_of,
                  const std::map<std::string, std::string>& metadata = {});

}  // namespace ridgeline

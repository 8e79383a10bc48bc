// The index of a model in several files, read as a stream of JSON events so that a name that stands
// there twice is seen.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/weight_files.h"

namespace ridgeline {
namespace {

Error bad_index_text(const std::string& problem) {
  return {ErrorKind::usage, "the index of weights " + problem,
          "the file is damaged or not what it says; get it again"};
}

// The only part that is read: {"weight_map": {name: file}}. What else an object has is passed over.
class IndexReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, std::string> take() {
    if (!seen_) throw bad_index_text("has no weight_map");
    if (files_.empty()) throw bad_index_text("names no tensor");
    return std::move(files_);
  }

  bool start_object(size_t) override { return open("an object", !in_map_); }
  bool start_array(size_t) override { return open("a list", depth_ > 0 && !in_map_ && !at_map_); }
  bool end_object() override {
    in_map_ = in_map_ && depth_ != 2;
    return close();
  }
  bool end_array() override { return close(); }
  bool key(std::string& text) override {
    key_ = text;
    if (depth_ != 1) return true;
    at_map_ = text == "weight_map";
    if (at_map_ && seen_) throw bad_index_text("has weight_map twice");
    seen_ = seen_ || at_map_;
    return true;
  }
  bool string(std::string& text) override {
    if (!in_map_) return other("a string");
    check_shard(text);
    if (!files_.emplace(key_, text).second)
      throw bad_index_text(fmt::format("names '{}' twice", shown_name(key_)));
    return true;
  }
  bool number_unsigned(uint64_t) override { return other("a number"); }
  bool number_integer(int64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return other("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw bad_index_text(fmt::format("is no JSON at byte {}", position));
  }

 private:
  bool open(const char* what, bool allowed) {
    constexpr int kDeepest = 16;
    if (!allowed || depth_ == kDeepest) return refuse(what);
    in_map_ = in_map_ || (depth_ == 1 && at_map_);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  // Values that are passed over, unless they stand where the map or a file must.
  bool other(const char* what) {
    return depth_ == 0 || in_map_ || (depth_ == 1 && at_map_) ? refuse(what) : true;
  }
  [[noreturn]] bool refuse(const char* what) const {
    throw bad_index_text(
        fmt::format("has {} at '{}', where the format has none", what, shown_name(key_)));
  }

  // A file beside the index: a path could lead anywhere.
  void check_shard(const std::string& shard) const {
    constexpr std::string_view kEnding = ".safetensors";
    const bool is_plain = shard.size() > kEnding.size() && shard.ends_with(kEnding) &&
                          shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                          shard[0] != '.' && shard.size() <= 255;
    if (!is_plain)
      throw bad_index_text(
          fmt::format("puts '{}' into '{}', expected a .safetensors file beside it",
                      shown_name(key_), shown_name(shard)));
  }

  std::map<std::string, std::string> files_;
  std::string key_;
  int depth_ = 0;
  bool at_map_ = false;  // the key of the outer object is weight_map
  bool in_map_ = false;
  bool seen_ = false;
};

}  // namespace

std::map<std::string, std::string> parse_weight_index(std::string_view text) {
  IndexReader reader;
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace ridgeline

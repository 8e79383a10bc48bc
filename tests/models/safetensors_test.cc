// Files of weights: honest ones come back as they were, all others are refused.
#include "models/weight_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "base/error.h"
#include "measure/test_support.h"
#include "models/transformer_lm.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::temp_directory_path() /
                 (std::string("ridgeline-") + test->name() + std::to_string(getpid()));
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path file() const { return directory_ / "weights.safetensors"; }

  fs::path write(const std::string& header, size_t data_bytes) {
    return write_bytes(with_length(header) + std::string(data_bytes, '\0'));
  }
  fs::path write_bytes(const std::string& bytes) {
    std::ofstream(file(), std::ios::binary) << bytes;
    return file();
  }
  static std::string with_length(const std::string& header) {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header;
  }

  // The message of the refusal.
  static std::string refusal(const fs::path& path) {
    try {
      const SafetensorsFile opened(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "was accepted";
  }

  fs::path directory_;
};

const std::vector<Parameter> kParameters = {
    {"first.weight", {2, 3}}, {"second", {4}}, {"third.\"quoted\"", {1, 1, 2}}};

std::vector<float> values_of(const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(element_count(parameter.shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) + static_cast<float>(parameter.name.size());
  return values;
}

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_F(Safetensors, WhatIsSavedIsLoaded) {
  save_weights(file(), kParameters, values_of, {{"step", "7"}});
  size_t seen = 0;
  load_weights(file(), kParameters, [&](const Parameter& parameter, std::span<const float> values) {
    EXPECT_EQ(parameter.name, kParameters[seen++].name);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), values_of(parameter));
  });
  EXPECT_EQ(seen, kParameters.size());
  const SafetensorsFile opened(file());
  EXPECT_EQ(opened.header().metadata.at("step"), "7");
  EXPECT_EQ(opened.find("second").shape, std::vector<int64_t>{4});
}

// A model's own parameters, under the names that others know them by.
TEST_F(Safetensors, AModelComesBackBitByBit) {
  const std::vector<Parameter> parameters = transformer_parameters({.name = "tiny",
                                                                    .d_model = 24,
                                                                    .d_ff = 40,
                                                                    .layers = 2,
                                                                    .heads = 3,
                                                                    .vocabulary = 19,
                                                                    .batch_size = 1,
                                                                    .context_length = 4});
  const auto drawn = [](const Parameter& parameter) { return beginning_of(parameter, 3); };
  save_weights(directory_ / "new" / "folder" / "model", parameters, drawn);
  size_t seen = 0;
  load_weights(directory_ / "new" / "folder" / "model", parameters,
               [&](const Parameter& parameter, std::span<const float> values) {
                 EXPECT_EQ(parameter.name, parameters[seen++].name);
                 EXPECT_EQ(std::vector<float>(values.begin(), values.end()), drawn(parameter));
               });
  EXPECT_EQ(seen, parameters.size());
  const SafetensorsFile opened(directory_ / "new" / "folder" / "model");
  EXPECT_EQ(opened.find("layers.1.ffn.w2.weight").shape, (std::vector<int64_t>{24, 40}));
  EXPECT_EQ(opened.find("lm_head.weight").shape, (std::vector<int64_t>{19, 24}));
}

TEST_F(Safetensors, ALinkStaysOneAndAPipeIsWrittenTo) {
  save_weights(file(), kParameters, values_of);
  const std::string saved = contents(file());
  std::ofstream(file()) << "old";
  fs::create_symlink(file(), directory_ / "link");
  save_weights(directory_ / "link", kParameters, values_of);
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(contents(file()), saved);
  const fs::path pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR);  // so that neither side waits for the other
  save_weights(pipe, kParameters, values_of);
  std::string piped(saved.size(), ' ');
  EXPECT_EQ(read(reader, piped.data(), piped.size()), static_cast<ssize_t>(saved.size()));
  close(reader);
  EXPECT_EQ(piped, saved);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(Safetensors, NarrowFloatsAreWidened) {
  write_bytes(with_length(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"F16","shape":[1],"data_offsets":[4,6]}})") +
              std::string("\x80\x3f\x00\xc0\x00\x3e", 6));
  const SafetensorsFile opened(file());
  EXPECT_EQ(opened.read_floats(opened.find("a")), (std::vector<float>{1, -2}));
  EXPECT_EQ(opened.read_floats(opened.find("b")), std::vector<float>{1.5});
}

TEST_F(Safetensors, AFailedSaveLeavesTheOldFile) {
  save_weights(file(), kParameters, values_of);
  const std::string before = contents(file());
  const auto fail = [](const Parameter&) -> std::vector<float> {
    throw Error(ErrorKind::environment, "no more");
  };
  EXPECT_THROW(save_weights(file(), kParameters, fail), Error);
  EXPECT_EQ(contents(file()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "a temporary was left";
}

TEST_F(Safetensors, AnotherModelIsRefusedBeforeAnythingIsUsed) {
  save_weights(file(), kParameters, values_of);
  const auto load = [&](const std::vector<Parameter>& wanted) {
    load_weights(file(), wanted, [](const auto&, auto) { ADD_FAILURE() << "was used"; });
  };
  auto wanted = kParameters;
  wanted[1].shape = {2, 2};
  EXPECT_ERROR(load(wanted), ErrorKind::usage, "'second' as [4], expected [2, 2]");
  wanted = kParameters;
  wanted[2].name = "fourth";
  EXPECT_ERROR(load(wanted), ErrorKind::usage, "no tensor 'fourth'");
  wanted = kParameters;
  wanted.pop_back();
  EXPECT_ERROR(load(wanted), ErrorKind::usage, "has 3 tensors, expected 2");
}

// The last tensor is one that no weight can be read from, after others that are as they should be.
TEST_F(Safetensors, ADTypeThatIsNoFloatIsRefusedBeforeAnythingIsUsed) {
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
        R"("b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}})",
        8);
  const std::vector<Parameter> wanted = {{"a", {1}}, {"b", {1}}};
  EXPECT_ERROR(load_weights(file(), wanted, [](const auto&, auto) { ADD_FAILURE() << "was used"; }),
               ErrorKind::usage, "has 'b' as I32, expected F32, BF16 or F16");
}

TEST_F(Safetensors, FilesThatAreNoneAreRefused) {
  EXPECT_HAS(refusal(directory_ / "missing"), "No such file");
  EXPECT_HAS(refusal(directory_), "no regular file");
  const fs::path pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_HAS(refusal(pipe), "no regular file");
  EXPECT_HAS(refusal(write_bytes("")), "too few");
  EXPECT_HAS(refusal(write_bytes("1234567")), "too few");
  EXPECT_HAS(refusal(write_bytes(std::string(8, '\xff'))), "at most");
  EXPECT_HAS(refusal(write_bytes(std::string("\x09\0\0\0\0\0\0\0{}", 10))), "alone has 9");
}

TEST_F(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  save_weights(file(), kParameters, values_of);
  const std::string whole = contents(file());
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal(write_bytes(whole.substr(0, length))), "was accepted") << length;
  EXPECT_EQ(refusal(write_bytes(whole)), "was accepted");
  EXPECT_NE(refusal(write_bytes(whole + '\0')), "was accepted");
}

TEST_F(Safetensors, LyingHeadersAreRefused) {
  struct Lie {
    const char* header;
    const char* expected;
  };
  const Lie lies[] = {
      {"", "begin with"},
      {"[]", "begin with"},
      {"{", "not JSON"},
      {"{}{}", "not JSON"},
      {R"({"a":1})", "JSON number"},
      {R"({"a":null})", "JSON null"},
      {R"({"a":"b"})", "JSON string"},
      {R"({"a":{}})", "lacks"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "lacks"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":{}}})", "JSON object"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":[]}})", "JSON array"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "JSON array"},
      {R"({"a":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}})", "JSON boolean"},
      {R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "twice"},
      {R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", "unknown"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "negative"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "whole"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "its shape has 12"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,16]}})", "expected 2"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "[8, 0)"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "[0, 16) of 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "a gap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "describes 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "an overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "twice"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", "counted"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", "whole"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", "too large"},
      {R"({"__metadata__":{"a":1}})", "JSON number"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", "twice"},
  };
  for (const Lie& lie : lies)
    EXPECT_HAS(refusal(write(lie.header, 8)), lie.expected) << lie.header << "\n"
                                                            << refusal(write(lie.header, 8));
}

TEST_F(Safetensors, DeepNestingIsRefusedAtOnce) {
  EXPECT_NE(refusal(write("{\"a\":" + std::string(1 << 20, '['), 0)), "was accepted");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal(write(objects, 0)), "was accepted");
}

TEST_F(Safetensors, NamesCannotCommandATerminal) {
  const std::string message = refusal(write("{\"\\u001b[2J" + std::string(500, 'x') + "\":{}}", 0));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 400u);
  // Nor do they from a header that is whole: as tensors that no model has, or of the wrong dtype.
  const std::string name = "\\u001b[2J\\u009b2J" + std::string(500, 'x');
  write("{\"" + name + R"(":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4);
  const SafetensorsFile opened(file());
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { load_weights(file(), {}, [](const auto&, auto) {}); },
           [&] { opened.read_floats(opened.header().tensors[0]); }}) {
    try {
      read();
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      const std::string words = error.what();
      EXPECT_TRUE(std::all_of(words.begin(), words.end(), [](char c) {
        return (c >= ' ' && c < 0x7f) || c == '\n';
      })) << words;
      EXPECT_LT(words.size(), 400u);
    }
  }
}

// Seeded damage to a valid file: bytes flipped, removed, doubled, numbers changed. Whatever is
// still accepted must be readable.
TEST_F(Safetensors, DamagedFilesNeverDoHarm) {
  save_weights(file(), kParameters, values_of, {{"step", "7"}});
  const std::string whole = contents(file());
  std::mt19937_64 random(11);
  const auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  int refused = 0;
  constexpr int kRounds = 6000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    for (size_t change = 0; change <= below(3); ++change) {
      const size_t at = below(bytes.size() - 1);
      switch (below(6)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[below(8)] = static_cast<char>(below(256));  // the header's length
          break;
        case 2:
          bytes.erase(at, 1 + below(9));
          break;
        case 3:
          bytes.insert(at, bytes.substr(at, 1 + below(40)));
          break;
        case 4:
          bytes[at] = "0123456789[]{},:\"-.e"[below(20)];
          break;
        default:
          if (const size_t digit = bytes.find_first_of("0123456789", at); digit < bytes.size())
            bytes.replace(digit, 1, std::to_string(random() >> below(64)));
      }
      if (bytes.size() < 2) break;
    }
    write_bytes(bytes);
    try {
      const SafetensorsFile opened(file());
      for (const StoredTensor& tensor : opened.header().tensors)
        EXPECT_EQ(opened.read(tensor).size(), static_cast<size_t>(tensor.end - tensor.begin));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
}

}  // namespace
}  // namespace ridgeline

// Ids and decoded text are those of the real sentencepiece, on models that it trains here.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/child_process.h"
#include "measure/test_support.h"
#include "text/model_file.h"
#include "text/oracle.h"
#include "text/random_text.h"
#include "text/tokenizer.h"

namespace ridgeline {
namespace {

#ifdef SENTENCEPIECE_ORACLE
constexpr const char* kOracle = SENTENCEPIECE_ORACLE;
#else
constexpr const char* kOracle = "";
#endif

constexpr size_t kTexts = 3000;

class SentencePiece : public ::testing::Test {
 protected:
  void SetUp() override {
    if (*kOracle == '\0') GTEST_SKIP() << "install libsentencepiece-dev and configure again";
  }

  // A model as Gemma's are: bytes for what is unknown, no dummy prefix, spaces as they are, and
  // runs of spaces, newlines, tabs and tags as pieces of their own.
  std::string train(const std::vector<std::string>& other_flags = {}) {
    write_text(folder_ / "corpus", RandomText(1).corpus(1500));
    std::string user_defined =
        "<mask>,<start_of_turn>,<end_of_turn>,\t,\t\t,<code>,</code>,<i>,</i>,a b,  ";
    for (int length = 2; length <= 31; ++length) {
      user_defined += ',';
      for (int i = 0; i < length; ++i) user_defined += "▁";
    }
    for (int length = 1; length <= 31; ++length)
      user_defined += ',' + std::string(static_cast<size_t>(length), '\n');
    std::vector<std::string> words = {kOracle,
                                      "train",
                                      "input=" + (folder_ / "corpus").string(),
                                      "model_prefix=" + (folder_ / "trained").string(),
                                      "model_type=bpe",
                                      "vocab_size=700",
                                      "character_coverage=0.999",
                                      "byte_fallback=true",
                                      "normalization_rule_name=identity",
                                      "add_dummy_prefix=false",
                                      "remove_extra_whitespaces=false",
                                      "num_threads=1",
                                      "minloglevel=2",
                                      "pad_id=0",
                                      "eos_id=1",
                                      "bos_id=2",
                                      "unk_id=3",
                                      "bos_piece=<bos>",
                                      "eos_piece=<eos>",
                                      "control_symbols=<control>,<image>",
                                      "user_defined_symbols=" + user_defined};
    words.insert(words.end(), other_flags.begin(), other_flags.end());
    run_oracle(words);
    return read_text(folder_ / "trained.model");
  }

  void expect_same_ids(const std::string& model, size_t count, uint64_t seed = 7) {
    expect_same_ids(model, RandomText(seed).many(count));
  }
  void expect_same_ids(const std::string& model, const std::vector<std::string>& texts) {
    write_text(folder_ / "tokenizer.model", model);
    const std::vector<Encoded> expected =
        ask_oracle({kOracle, "encode", (folder_ / "tokenizer.model").string()}, folder_, texts);
    expect_same(Tokenizer::from_folder(folder_.path()), texts, expected,
                Decoded::backwards_then_forwards);
  }

  TempDir folder_;
};

TEST_F(SentencePiece, IdsOfAModelLikeGemmasAreTheSame) {
  expect_same_ids(train(), kTexts);
}

TEST_F(SentencePiece, SpecialPiecesHaveTheIdsOfTheFile) {
  train();
  const Tokenizer tokenizer = Tokenizer::from_file(folder_ / "trained.model");
  EXPECT_EQ(tokenizer.size(), 700);
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.bos(), 2);
  EXPECT_EQ(tokenizer.end_of_turn(), tokenizer.find("<end_of_turn>"));
  EXPECT_TRUE(tokenizer.end_of_turn());
}

TEST_F(SentencePiece, EveryTreatmentOfSpacesIsTheSame) {
  const std::string model = train();
  const auto normalizer = [](int prefix, int trims, int escapes) {
    return bytes_field(3, varint_field(3, static_cast<uint64_t>(prefix)) +
                              varint_field(4, static_cast<uint64_t>(trims)) +
                              varint_field(5, static_cast<uint64_t>(escapes)));
  };
  const std::string suffix = bytes_field(2, varint_field(24, 1));
  for (int options = 0; options < 8; ++options) {
    const std::string spaces = normalizer(options & 1, options >> 1 & 1, options >> 2);
    expect_same_ids(model + spaces, 500, 100 + static_cast<uint64_t>(options));
    expect_same_ids(model + spaces + suffix, 200, 200 + static_cast<uint64_t>(options));
  }
}

TEST_F(SentencePiece, UnusedPiecesAreTakenApartInTheSameWay) {
  std::string model;
  size_t number = 0;
  for_each_field(train(), [&](const ProtobufField& field) {
    const bool is_piece = field.number == 1 && ++number > 350;
    const bool becomes_unused = is_piece && number % 3 == 0;
    model += bytes_field(field.number,
                         std::string(field.bytes()) + (becomes_unused ? varint_field(3, 5) : ""));
  });
  expect_same_ids(model, kTexts);
}

TEST_F(SentencePiece, UserDefinedPiecesDoNotMerge) {
  std::string more;
  for (const char* text : {"▁▁the", "the▁▁", "\nx", "<code>abc", "\t<code>"})
    more += piece_field({text, 1, PieceKind::normal});
  expect_same_ids(train() + more, kTexts);
}

// Of few letters, many pieces can be made in several ways and have equal scores.
TEST_F(SentencePiece, RandomVocabulariesOfFewLettersGiveTheSameIds) {
  std::mt19937_64 random(5);
  const auto word = [&](size_t most) {
    std::string text(1 + random() % most, 'a');
    for (char& c : text) c = "abc "[random() % 4];
    return text;
  };
  constexpr PieceKind kKinds[] = {PieceKind::normal, PieceKind::normal, PieceKind::unused,
                                  PieceKind::user_defined};
  for (int vocabulary = 0; vocabulary < 15; ++vocabulary) {
    std::vector<Piece> pieces = small_pieces();
    std::set<std::string> texts;
    for (int i = 0; i < 60; ++i) texts.insert(word(5));
    for (const std::string& text : texts) {
      std::string escaped;
      for (const char c : text) escaped += c == ' ' ? "▁" : std::string(1, c);
      if (std::ranges::find(pieces, escaped, &Piece::text) != pieces.end()) continue;
      const PieceKind kind = kKinds[random() % (text.size() > 1 && vocabulary % 2 ? 4 : 3)];
      pieces.push_back({escaped, -static_cast<float>(random() % 8), kind});
    }
    std::vector<std::string> inputs(300);
    for (std::string& input : inputs) input = word(30);
    expect_same_ids(model_file(pieces), inputs);
  }
}

TEST_F(SentencePiece, WithoutBytesNeighboursThatAreUnknownAreOne) {
  expect_same_ids(train({"byte_fallback=false", "vocab_size=400"}), kTexts);
}

TEST_F(SentencePiece, OtherKindsOfModelsAreRefusedByName) {
  for (const char* kind : {"unigram", "word", "char"}) {
    train({std::string("model_type=") + kind, "hard_vocab_limit=false", "byte_fallback=false"});
    EXPECT_ERROR(Tokenizer::from_file(folder_ / "trained.model"), ErrorKind::unsupported, kind);
  }
  train({"normalization_rule_name=nmt_nfkc"});
  EXPECT_ERROR(Tokenizer::from_file(folder_ / "trained.model"), ErrorKind::unsupported, "nmt_nfkc");
}

using SlowSentencePiece = SentencePiece;

TEST_F(SlowSentencePiece, IdsOfAHundredThousandTextsAreTheSame) {
  expect_same_ids(train(), 100'000, 11);
}

// The library `tokenizers`, where Python has it.
std::string python_with_tokenizers() {
  const char* named = std::getenv("RIDGELINE_PYTHON");
  const std::string python = find_program(named ? named : "python3").string();
  if (python.empty()) return {};
  ChildProcess probe({python, "-c", "import tokenizers; print('yes')"});
  return probe.read_line({.seconds = 60}).line == "yes" ? python : "";
}

TEST_F(SentencePiece, TheSameVocabularyAsJsonGivesTheSameIds) {
  const std::string model = train();
  write_text(folder_ / "tokenizer.json", tokenizer_json(pieces_of(model)).dump());
  const Tokenizer from_model = Tokenizer::from_file(folder_ / "trained.model");
  const Tokenizer from_json = Tokenizer::from_file(folder_ / "tokenizer.json");
  EXPECT_EQ(from_json.size(), from_model.size());
  EXPECT_EQ(from_json.bos(), from_model.bos());
  for (const std::string& text : RandomText(13).many(kTexts))
    ASSERT_EQ(from_json.encode(text), from_model.encode(text)) << "of '" << text << "'";
}

TEST_F(SentencePiece, IdsFromJsonAreThoseOfTokenizersWhereItIs) {
  const std::string python = python_with_tokenizers();
  if (python.empty()) GTEST_SKIP() << "no library `tokenizers` for RIDGELINE_PYTHON or python3";
  Json json = tokenizer_json(pieces_of(train()));
  Json spaces = *json["added_tokens"].begin();
  spaces.update({{"id", json["model"]["vocab"]["  "]}, {"content", "  "}, {"normalized", false}});
  Json control = spaces;
  control.update({{"id", 2}, {"content", "<bos>"}, {"special", true}});
  const Json added = json["added_tokens"];
  const std::vector<std::string> texts = RandomText(17).many(kTexts, true);
  for (const bool normalized : {true, false}) {
    json["added_tokens"] = Json::array({spaces, control});
    for (Json token : added) {
      token["normalized"] = normalized;
      json["added_tokens"].push_back(token);
    }
    write_text(folder_ / "tokenizer.json", json.dump());
    const std::vector<Encoded> expected =
        ask_oracle({python, RIDGELINE_TESTS_DIR "/text/tokenizers_oracle.py",
                    (folder_ / "tokenizer.json").string()},
                   folder_, texts);
    expect_same(Tokenizer::from_file(folder_ / "tokenizer.json"), texts, expected,
                Decoded::forwards);
  }
}

}  // namespace
}  // namespace ridgeline

// Files of tokenizers: whatever is read encodes, and decodes what it encoded.
#include "text/tokenizer.h"

#include "fuzz/fuzz.h"
#include "text/chat.h"
#include "text/model_file.h"

namespace ridgeline {
namespace {

void use_tokenizer(const Tokenizer& tokenizer) {
  const std::string text = "  hello wörld\n\n<code>\xff😀<end_of_turn> us er";
  for (const SpecialPieces special : {SpecialPieces::matched, SpecialPieces::as_text})
    for (const int32_t id : tokenizer.encode(text, special))
      tokenizer.decode(std::vector<int32_t>{id, 0});
  chat_prompt(tokenizer, text);
}

FuzzTarget tokenizer_target(const std::string& name, const TempDir& folder,
                            const std::string& file) {
  return {.name = name, .seeds = {}, .run = [&folder, file](const std::string& input) {
            write_text(folder / file, input);
            use_tokenizer(Tokenizer::from_file(folder / file));
          }};
}

TEST(SlowFuzz, TokenizerModel) {
  const TempDir folder;
  FuzzTarget target = tokenizer_target("TokenizerModel", folder, "tokenizer.model");
  target.inputs = 5000;
  std::vector<Piece> pieces = small_pieces();
  pieces.push_back({"hellow", -0.5, PieceKind::unused});
  const std::string plain = model_file(pieces);
  target.seeds = {plain, plain + bytes_field(3, varint_field(3, 1) + varint_field(4, 1)),
                  plain + bytes_field(2, varint_field(24, 1) + bytes_field(44, "?"))};
  for (const int kind : {1, 2, 3, 4, 5, 6, 7}) {
    target.words.push_back(varint_field(3, static_cast<uint64_t>(kind)));
    target.words.push_back(piece_field({"wo", -3, PieceKind{kind}}));
  }
  for (const std::string& word : {kBpeTrainer, kPlainNormalizer, bytes_field(1, "")})
    target.words.push_back(word);
  fuzz(target);
}

TEST(SlowFuzz, TokenizerJson) {
  const TempDir folder;
  FuzzTarget target = tokenizer_target("TokenizerJson", folder, "tokenizer.json");
  Json json = tokenizer_json(small_pieces());
  target.seeds = {json.dump()};
  Json added = Json::array(), merges = Json::array();
  for (Json token : json["added_tokens"]) {
    token.update({{"normalized", false}, {"special", true}});
    added.push_back(token);
  }
  for (const Json& merge : json["model"]["merges"])
    merges.push_back(merge[0].text() + " " + merge[1].text());
  json["added_tokens"] = added;
  json["model"]["merges"] = merges;
  target.seeds.push_back(json.dump());
  target.words = {
      R"("he":0,)",      R"(["h","e"],)",        R"("h e",)",           R"("special":true,)",
      R"("id":262144,)", R"({"id":3},)",         R"("vocab":{"a":0},)", R"("merges":[["h","e"]],)",
      R"("model":{},)",  R"("added_tokens":[],)"};
  fuzz(target);
}

}  // namespace
}  // namespace ridgeline

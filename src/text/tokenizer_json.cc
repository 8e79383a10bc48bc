// Reads tokenizer.json of the library `tokenizers`: a BPE model. Its vocabulary and merges have
// hundreds of thousands of entries, so they are streamed while the text is parsed.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/damaged_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/vocabulary.h"

namespace ridgeline {
namespace {

Error not_implemented(const std::string& problem) {
  return {ErrorKind::unsupported, problem,
          "only BPE with byte fallback, as in Gemma's files, is read; tokenizer.model may serve"};
}

std::string as_shown(const Json& json) {
  return printable(json.dump(), 120);
}

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  const Json* found = object.find_key(key);
  return found ? *found : kNull;
}

bool is_same(const Json& json, std::string_view expected) {
  return json.sorted() == Json::parse(expected).sorted();
}

void refuse_unknown_keys(const Json& object, std::string_view where,
                         std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end() && !value.is_null())
      throw not_implemented(fmt::format("has '{}' in {}, whose meaning is not known here",
                                        printable(key, 40), where));
}

// Returns whether there is a normalizer; the only supported one replaces spaces.
bool replaces_spaces(const Json& normalizer) {
  if (normalizer.is_null()) return false;
  if (is_same(normalizer, R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})"))
    return true;
  throw not_implemented(fmt::format("has the normalizer {}", as_shown(normalizer)));
}

void check_components(const Json& root, bool escapes) {
  const Json& splitter = member(root, "pre_tokenizer");
  // A splitter at spaces has no effect, because the normalizer replaces all of them.
  const bool never_splits = escapes && splitter.value("type", "") == "Split" &&
                            is_same(member(splitter, "pattern"), R"({"String":" "})") &&
                            splitter.value("invert", true) == false;
  if (!splitter.is_null() && !never_splits)
    throw not_implemented(fmt::format("has the pre_tokenizer {}", as_shown(splitter)));
  // TemplateProcessing adds <bos>; here the caller does.
  const Json& processor = member(root, "post_processor");
  if (!processor.is_null() && processor.value("type", "") != "TemplateProcessing")
    throw not_implemented(fmt::format("has the post_processor {}", as_shown(processor)));
  const Json& decoder = member(root, "decoder");
  if (!is_same(decoder, R"({"type":"Sequence","decoders":[)"
                        R"({"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
                        R"({"type":"ByteFallback"},{"type":"Fuse"}]})"))
    throw not_implemented(fmt::format("has the decoder {}", as_shown(decoder)));
  for (const char* key : {"truncation", "padding"})
    if (!member(root, key).is_null()) throw not_implemented(fmt::format("asks for {}", key));
}

void check_model(const Json& model) {
  if (!model.is_object()) throw damaged_file("has no model");
  if (model.value("type", "") != "BPE")
    throw not_implemented(fmt::format("has a model of type {}", as_shown(member(model, "type"))));
  refuse_unknown_keys(
      model, "its model",
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (const Json& value = member(model, key); !value.is_null() && !(value == Json("")))
      throw not_implemented(fmt::format("has {} {}", key, as_shown(value)));
  if (!model.value("byte_fallback", false)) throw not_implemented("does not fall back to bytes");
  const Json& ignore = member(model, "ignore_merges");
  if (!ignore.is_null() && !(ignore == Json(false)))
    throw not_implemented(fmt::format("has ignore_merges {}", as_shown(ignore)));
  if (!member(model, "vocab").is_object() || !member(model, "merges").is_array())
    throw damaged_file("has no vocab or no merges in its model");
}

int32_t id_from(const Json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > INT32_MAX)
    throw damaged_file(fmt::format("has {} as an id", as_shown(json)));
  return json.get<int32_t>();
}

// Maps texts to ids while the file is read.
class Tokens {
 public:
  void add(const std::string& text, int32_t id) {
    if (!ids_.emplace(text, id).second)
      throw damaged_file(fmt::format("has '{}' twice", printable(text, 40)));
  }
  const int32_t* find(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? nullptr : &found->second;
  }
  int32_t at(const std::string& text) const {
    if (const int32_t* id = find(text)) return *id;
    throw damaged_file(fmt::format("merges '{}', which is not in its vocab", printable(text, 40)));
  }
  // Throws unless each id from 0 to the number of tokens - 1 occurs once.
  std::vector<Piece> pieces() const {
    std::vector<Piece> pieces(ids_.size());
    for (const auto& [text, id] : ids_) {
      const auto place = static_cast<size_t>(id);
      if (place >= pieces.size() || !pieces[place].text.empty())
        throw damaged_file(fmt::format("has {} tokens, and one of them twice or beyond: '{}' as {}",
                                       ids_.size(), printable(text, 40), id));
      pieces[place].text = text;
      if (byte_of(text)) pieces[place].kind = PieceKind::byte;
    }
    return pieces;
  }

 private:
  std::unordered_map<std::string, int32_t> ids_;
};

using MergedTexts = std::pair<std::string, std::string>;

// ["a", "b"], or "a b" in older files.
MergedTexts merged_texts(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].text(), merge[1].text()};
  if (merge.is_string()) {
    const std::string& both = merge.text();
    const size_t space = both.find(' ');
    if (space != both.npos && both.find(' ', space + 1) == both.npos)
      return {both.substr(0, space), both.substr(space + 1)};
  }
  throw damaged_file(fmt::format("has the merge {}, expected two tokens", as_shown(merge)));
}

struct AddedToken {
  MergeListModel::Added added;
  bool special;
};

AddedToken read_added(const Json& token) {
  refuse_unknown_keys(
      token, "a token of added_tokens",
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const auto flag = [&](const char* key) {
    const Json& value = member(token, key);
    if (!value.is_boolean())
      throw damaged_file(fmt::format("has {} as {} of the token {}", as_shown(value), key,
                                     as_shown(member(token, "content"))));
    return value.get<bool>();
  };
  for (const char* key : {"single_word", "lstrip", "rstrip"})
    if (flag(key))
      throw not_implemented(
          fmt::format("has {} for the token {}", key, as_shown(member(token, "content"))));
  if (!member(token, "content").is_string())
    throw damaged_file(fmt::format("has the added token {}", as_shown(token)));
  return {{token.at("content").text(), id_from(member(token, "id")), flag("normalized")},
          flag("special")};
}

std::vector<AddedToken> read_all_added(const Json& list, Tokens& tokens) {
  if (!list.is_null() && !list.is_array()) throw damaged_file("has added_tokens that are no list");
  std::vector<AddedToken> all;
  std::set<int32_t> ids;
  for (const Json& token : list) {
    all.push_back(read_added(token));
    const auto& [text, id, normalized] = all.back().added;
    if (!ids.insert(id).second) throw damaged_file(fmt::format("adds the token {} twice", id));
    const int32_t* known = tokens.find(text);
    if (known && *known != id)
      throw damaged_file(fmt::format("has '{}' as {} and as {}", printable(text, 40), *known, id));
    if (!known) tokens.add(text, id);
  }
  return all;
}

std::optional<int32_t> first_of(const Vocabulary& vocabulary,
                                std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = vocabulary.find(name)) return id;
  return std::nullopt;
}

Json parse(std::string_view text, Tokens& tokens, std::vector<MergedTexts>& merges) {
  const Json::Streamed streamed[] = {
      {{"model", "vocab"},
       [&](const std::string& key, const Json& id) { tokens.add(key, id_from(id)); }},
      {{"model", "merges"},
       [&](const std::string&, const Json& merge) { merges.push_back(merged_texts(merge)); }}};
  try {
    return Json::parse(text, streamed);
  } catch (const JsonError& error) {
    throw damaged_file(error.what());
  }
}

}  // namespace

MergeListModel read_tokenizer_json(std::string_view text) {
  Tokens tokens;
  std::vector<MergedTexts> merges;
  const Json root = parse(text, tokens, merges);
  if (!root.is_object()) throw damaged_file("is no JSON object");
  if (root.value("version", "") != "1.0")
    throw not_implemented(fmt::format("is of version {}", as_shown(member(root, "version"))));
  refuse_unknown_keys(root, "it",
                      {"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"});
  const Json& description = member(root, "model");
  check_model(description);
  MergeListModel model;
  model.escape_whitespaces = replaces_spaces(member(root, "normalizer"));
  check_components(root, model.escape_whitespaces);

  for (const auto& [left, right] : merges)
    model.merges.push_back({tokens.at(left), tokens.at(right), tokens.at(left + right)});
  const std::vector<AddedToken> added = read_all_added(member(root, "added_tokens"), tokens);
  Vocabulary& vocabulary = model.vocabulary;
  vocabulary.pieces = tokens.pieces();
  vocabulary.check();
  const std::string unknown = description.value("unk_token", "");
  vocabulary.unknown_surface = unknown;
  if (const auto id = vocabulary.find(unknown))
    vocabulary.pieces[static_cast<size_t>(*id)].kind = PieceKind::unknown;
  for (const AddedToken& token : added) {
    model.added.push_back(token.added);
    Piece& piece = vocabulary.pieces[static_cast<size_t>(token.added.id)];
    if (token.special) piece.kind = PieceKind::control;
    piece.special = token.special;
  }
  vocabulary.bos = first_of(vocabulary, {"<bos>", "<s>"});
  vocabulary.eos = first_of(vocabulary, {"<eos>", "</s>"});
  return model;
}

}  // namespace ridgeline

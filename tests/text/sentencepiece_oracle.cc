// Runs the real sentencepiece for tests:
//
//   sentencepiece_oracle train KEY=VALUE...            as spm_train has the keys
//   sentencepiece_oracle encode MODEL TEXTS RESULTS    files of tests/text/oracle.h; what is
//   decoded
//                                                      are the ids backwards, then forwards
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

int train(int count, char** words) {
  std::unordered_map<std::string, std::string> flags;
  for (int i = 0; i < count; ++i) {
    const std::string word = words[i];
    const size_t equals = word.find('=');
    flags[word.substr(0, equals)] = word.substr(equals + 1);
  }
  const auto status = sentencepiece::SentencePieceTrainer::Train(flags);
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok() ? 0 : 1;
}

void write_size(std::ofstream& file, size_t size) {
  const auto number = static_cast<uint32_t>(size);
  file.write(reinterpret_cast<const char*>(&number), sizeof number);
}

int encode(const std::string& model, const char* texts, const char* results) {
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.Load(model);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  std::ifstream in(texts, std::ios::binary);
  std::ofstream out(results, std::ios::binary);
  uint32_t size = 0;
  while (in.read(reinterpret_cast<char*>(&size), sizeof size)) {
    std::string text(size, '\0');
    in.read(text.data(), size);
    std::vector<int> ids;
    if (!processor.Encode(text, &ids).ok()) return 1;
    // Backwards as well: spaces come first, and bytes make no characters.
    std::vector<int> both(ids.rbegin(), ids.rend());
    both.insert(both.end(), ids.begin(), ids.end());
    std::string decoded;
    if (!processor.Decode(both, &decoded).ok()) return 1;
    write_size(out, ids.size());
    for (const int id : ids) write_size(out, static_cast<size_t>(id));
    write_size(out, decoded.size());
    out << decoded;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string task = count > 1 ? words[1] : "";
  if (task == "train") return train(count - 2, words + 2);
  if (task == "encode" && count == 5) return encode(words[2], words[3], words[4]);
  return 2;
}

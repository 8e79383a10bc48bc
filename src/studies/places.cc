#include "studies/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ridgeline {
namespace {

Json facts_of(const Record& record, std::span<const std::string_view> drawn) {
  Json facts = Json::object();
  for (const Json* part : {&record.workload, &record.settings})
    if (part->is_object()) facts.update(*part);
  for (const std::string_view key : drawn) facts.erase(key);
  facts["device"] = record.device;
  facts["machine"] = record.machine.fingerprint;
  return facts;
}

// "2 threads", "machine 1f2e", "d ff 512"; empty for what a place does not have.
std::string fact_words(const Json& facts, const std::string& key) {
  const std::string value = shown(text_of(facts, key.c_str()), 16);
  if (value.empty() || value == "False") return {};
  if (key == "threads") return value + (value == "1" ? " thread" : " threads");
  return value == "True" ? key_words(key) : key_words(key) + " " + value;
}

}  // namespace

std::string apart_words(const Json& facts, const std::vector<Json>& alike) {
  std::string text;
  for (const auto& item : facts.items()) {
    const std::string& key = item.key;
    if (std::ranges::any_of(alike, [&](const Json& other) {
          return text_of(other, key.c_str()) != text_of(facts, key.c_str());
        }))
      if (const std::string words = fact_words(facts, key); !words.empty()) text += ", " + words;
  }
  return text;
}

std::vector<RowPlace> places_of(const std::vector<const Record*>& rows,
                                const std::function<std::string(const Record&)>& name,
                                std::span<const std::string_view> drawn) {
  std::vector<RowPlace> places;
  std::vector<Json> facts;  // of each place
  std::map<std::string, size_t> place_of;
  std::map<std::string, std::vector<Json>> by_name;
  for (const Record* record : rows) {
    const std::string named = name(*record);
    Json of_row = facts_of(*record, drawn);
    const auto [place, is_new] =
        place_of.try_emplace(named + '\n' + of_row.sorted().dump(), places.size());
    if (is_new) {
      places.push_back({.name = named});
      by_name[named].push_back(of_row);
      facts.push_back(std::move(of_row));
    }
    places[place->second].rows.push_back(record);
  }
  for (size_t i = 0; i < places.size(); ++i)
    places[i].name += apart_words(facts[i], by_name[places[i].name]);
  return places;
}

}  // namespace ridgeline

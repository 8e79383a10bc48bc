// Groups of rows that a report may compare, and their names.
#include "studies/places.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline::places_test {
namespace {

std::vector<RowPlace> named_alike(const std::vector<Record>& records) {
  constexpr std::string_view kDrawn[] = {"seq_len"};
  std::vector<const Record*> rows;
  for (const Record& record : records) rows.push_back(&record);
  return places_of(
      rows, [](const Record&) { return "attention"; }, kDrawn);
}

TEST(Places, RowsThatDifferInWhatIsDrawnShareOne) {
  const auto places = named_alike({attention_record({.implementation = "flash", .seq_len = 64}),
                                   attention_record({.implementation = "naive", .seq_len = 128})});
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].name, "attention");
  EXPECT_EQ(places[0].rows.size(), 2u);
}

TEST(Places, OfOneNameAreToldApartByWhatDiffers) {
  std::vector<Record> records(4, attention_record({}));
  for (Record& record : records) record.settings = {{"threads", 1}, {"isa", "avx2"}};
  records[1].settings["threads"] = 2;
  records[2].machine.fingerprint = "1f2e";
  records[3].settings["deterministic"] = true;
  std::vector<std::string> names;
  for (const RowPlace& place : named_alike(records)) names.push_back(place.name);
  EXPECT_EQ(names, (std::vector<std::string>{"attention, 1 thread", "attention, 2 threads",
                                             "attention, 1 thread, machine 1f2e",
                                             "attention, 1 thread, deterministic"}));
}

}  // namespace
}  // namespace ridgeline::places_test

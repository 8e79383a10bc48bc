#include "report/terminal/records_json.h"

#include <gtest/gtest.h>

#include "measure/record_json.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(RecordsJson, HoldsEveryRecordWithItsRawSamples) {
  const Record record = attention_record({});
  const Json all = Json::parse(records_json(std::vector{record, record}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(record_from_json(all[1]), record);
  EXPECT_EQ(Json::parse(records_json({})), Json::array());
}

}  // namespace
}  // namespace ridgeline

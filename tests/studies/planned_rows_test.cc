// A row is traced and planned once, for its description and its run.
#include "studies/planned_rows.h"

#include <gtest/gtest.h>

#include "models/attention.h"
#include "runtime/cpu_device.h"

namespace ridgeline {
namespace {

TEST(PlannedRows, WhatARowWasDescribedByIsWhatRuns) {
  CpuDevice device({.threads = 1});
  int traced = 0;
  const Trace trace = [&](const Rewrite& forward) {
    ++traced;
    return attention_training_graph({.seq_len = 8, .head_dim = 8}, AttentionForm::plain, forward);
  };
  Record row, other;
  row.workload = {{"seq_len", 8}};
  other.workload = {{"seq_len", 16}};
  PlannedRows rows;
  const Executable* described = &rows.plan(row, trace, device, {});
  rows.plan(other, trace, device, {});
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(device.ledger().peak(), Bytes{0}) << "memory is asked for by the run";

  row.command = "ridgeline attention";  // does not identify it
  auto taken = rows.take(row, trace, device, {});
  EXPECT_EQ(taken.get(), described);
  EXPECT_EQ(traced, 2);
  taken->prepare();
  EXPECT_GT(device.ledger().live(), Bytes{0});
  taken.reset();
  EXPECT_EQ(device.ledger().live(), Bytes{0});

  EXPECT_NE(rows.take(row, trace, device, {}), nullptr) << "a row may run again";
  EXPECT_EQ(traced, 3);
}

}  // namespace
}  // namespace ridgeline

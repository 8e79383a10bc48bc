#include "studies/cost/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "report/record_columns.h"
#include "studies/places.h"

namespace ridgeline {
namespace {

std::vector<const Record*> cost_records(const RecordRefs& records) {
  std::vector<const Record*> rows = rows_of_study(records, "cost");
  std::erase_if(rows, [](const Record* record) { return !record->cost; });
  return rows;
}

bool is_measured(const Record& record) {
  return text_of(record.settings, "ceilings_from") == "measured";
}

std::string short_work_name(const Record& record) {
  const Json& work = record.workload;
  std::string text = text_of(work, "op");
  if (work.contains("m"))
    return fmt::format("{} {}x{}x{}", text, text_of(work, "m"), text_of(work, "n"),
                       text_of(work, "k"));
  text += fmt::format(" {}, {}, context {}, batch {}", text_of(work, "phase"),
                      text_of(work, "model_size"), text_of(work, "context_length"),
                      text_of(work, "batch_size"));
  if (const std::string form = text_of(work, "form"); !form.empty()) text += ", " + form;
  if (text_of(work, "causal") == "True") text += ", causal";
  return text;
}

std::string short_ceilings_name(const Record& record) {
  return text_of(record.workload, "ceilings") + (is_measured(record) ? ", measured" : "");
}

Json facts_of_work(const Record& record) {
  Json facts = record.workload;
  for (const char* key : {"ceilings", "dtype"}) facts.erase(key);
  return facts;
}

// A data sheet is the same whoever reads it.
Json facts_of_ceilings(const Record& record) {
  Json facts = Json::object();
  if (!is_measured(record)) return facts;
  if (record.settings.is_object()) facts = record.settings;
  facts["machine"] = record.machine.fingerprint;
  return facts;
}

std::string work_with_dtype(const CostNames& names, const Record& record) {
  return fmt::format("{}, {}", names.work(record), text_of(record.workload, "dtype"));
}

// "layer, small, context 1024, batch 4, bf16: prefill does 300 FLOPs per byte, decode 2; on A100
// they are bounded by compute and by memory, and the least time of a token is 30 times as long in
// decode; on H100 ..."
std::vector<std::string> prefill_and_decode(const CostNames& names,
                                            const std::vector<const Record*>& rows) {
  std::vector<std::string> works;
  std::map<std::string, std::string> text;
  for (const Record* decode : rows) {
    const std::string op = text_of(decode->workload, "op");
    if (op != "layer" && op != "model") continue;
    if (text_of(decode->workload, "phase") != "decode") continue;
    const auto prefill = std::ranges::find_if(rows, [&](const Record* other) {
      Json as_decode = other->workload;
      as_decode["phase"] = "decode";
      return other != decode && as_decode == decode->workload &&
             other->settings == decode->settings && text_of(other->workload, "phase") == "prefill";
    });
    if (prefill == rows.end()) continue;
    const auto tokens = number_in(decode->workload, "context_length");
    const auto slow = metric_number(*decode, "least_ms"),
               fast = metric_number(**prefill, "least_ms");
    const auto few = metric_number(*decode, "intensity"),
               many = metric_number(**prefill, "intensity");
    if (!tokens || !slow || !fast || !few || !many || !(*fast > 0)) continue;
    std::string work = work_with_dtype(names, *decode);
    if (const size_t at = work.find(" decode"); at != std::string::npos)
      work.erase(at, std::string_view(" decode").size());
    add_once(works, work);
    if (text[work].empty())
      text[work] =
          fmt::format("{}: prefill does {:.3g} FLOPs per byte, decode {:.3g}", work, *many, *few);
    const std::string first = metric_text(**prefill, "bound"),
                      second = metric_text(*decode, "bound");
    text[work] += fmt::format(
        "; on {} {}, and the least time of a token is {:.3g} times as long in decode",
        names.ceilings(*decode),
        first == second ? fmt::format("both are bounded by {}", first)
                        : fmt::format("they are bounded by {} and by {}", first, second),
        *slow / (*fast / *tokens));
  }
  std::vector<std::string> notes;
  for (const std::string& work : works) notes.push_back(text[work]);
  return notes;
}

// "gemma3-270m bf16: a token adds 18.0 KiB to the cache of its sequence, ..."
std::vector<std::string> cache_notes(const CostNames& names,
                                     const std::vector<const Record*>& rows) {
  std::vector<std::string> notes;
  for (const Record* record : rows) {
    const auto bytes = [&](const char* key) {
      return to_string(Bytes{static_cast<int64_t>(metric_number(*record, key).value_or(0))});
    };
    if (record->status != Status::ok || !metric_number(*record, "cache_bytes")) continue;
    const Json& work = record->workload;
    std::string note =
        fmt::format("{} {}: a token adds {} to the cache of its sequence", names.model(*record),
                    text_of(work, "dtype"), bytes("cache_bytes_per_token"));
    if (const std::string window = metric_text(*record, "sliding_window"); !window.empty())
      note += fmt::format(
          " up to the window of {} tokens, {} from there on, where sliding layers "
          "stop growing",
          window, bytes("cache_bytes_per_token_past_window"));
    note += fmt::format("; context {} and batch {} take {} beside {} of weights",
                        text_of(work, "context_length"), text_of(work, "batch_size"),
                        bytes("cache_bytes"), bytes("weights_bytes"));
    note += fmt::format(
        "; {} has room for at most {} tokens of each sequence, working memory left "
        "aside (`ridgeline memory --model-config` counts it)",
        names.ceilings(*record), metric_text(*record, "longest_context"));
    add_once(notes, note);
  }
  return notes;
}

}  // namespace

CostNames::CostNames(const RecordRefs& records) {
  const auto add = [](std::vector<Json>& all, Json facts) {
    if (std::ranges::find(all, facts) == all.end()) all.push_back(std::move(facts));
  };
  for (const Record* record : cost_records(records)) {
    add(works_[short_work_name(*record)], facts_of_work(*record));
    add(ceilings_[short_ceilings_name(*record)], facts_of_ceilings(*record));
  }
}

std::string CostNames::work(const Record& record) const {
  const std::string name = short_work_name(record);
  return name + apart_words(facts_of_work(record), works_.at(name));
}

std::string CostNames::model(const Record& record) const {
  return text_of(record.workload, "model_size") +
         apart_words(facts_of_work(record), works_.at(short_work_name(record)));
}

std::string CostNames::ceilings(const Record& record) const {
  const std::string name = short_ceilings_name(record);
  return name + apart_words(facts_of_ceilings(record), ceilings_.at(name));
}

Table cost_csv(const RecordRefs& records) {
  std::vector<RecordColumn> columns = workload_columns(
      {"op", "phase", "form", "m", "n", "k", "model_size", "batch_size", "context_length",
       "d_model", "d_ff", "layers", "heads", "head_dim", "causal", "dtype"});
  append<RecordRow>(columns, {{"macs", cost_cell(&PhaseCost::macs)},
                              {"flops", cost_cell(&PhaseCost::flops)},
                              {"bytes", cost_bytes_cell},
                              {"intensity", number_cell("intensity")},
                              {"device", workload_cell("ceilings")},
                              {"ceilings_from", setting_cell("ceilings_from")},
                              {"peak_gflops_per_s", number_cell("peak_gflops_per_s")},
                              {"gb_per_s", number_cell("gb_per_s")},
                              {"ridge", number_cell("ridge")},
                              {"bound", metric_text_cell("bound")},
                              {"attainable_gflops_per_s", number_cell("attainable_gflops_per_s")},
                              {"least_ms", number_cell("least_ms")},
                              {"node_by_node_ms", number_cell("node_by_node_ms")},
                              {"product_bytes", number_cell("product_bytes")},
                              {"status", status_cell},
                              {"error", error_cell}});
  for (const char* key : {"weights_bytes", "cache_bytes", "cache_bytes_per_token",
                          "cache_bytes_per_token_past_window", "longest_context"})
    columns.push_back({key, metric_text_cell(key)});
  return table_of("cost", columns, record_rows(cost_records(records)));
}

Table cost_counts(const RecordRefs& records) {
  const CostNames names(records);
  std::vector<RecordRow> rows;
  std::vector<std::string> seen;
  for (const Record* record : cost_records(records)) {
    const size_t before = seen.size();
    add_once(seen, work_with_dtype(names, *record));
    if (seen.size() > before) rows.push_back({record});
  }
  return table_of<RecordRow>(
      "what has to be done",
      {{"work", [&](const RecordRow& row) { return names.work(*row.record); }},
       {"dtype", workload_cell("dtype")},
       {"GMAC", cost_cell(&PhaseCost::macs, "{:.4g}", 1e-9)},
       {"GFLOP", cost_cell(&PhaseCost::flops, "{:.4g}", 1e-9)},
       {"MiB", cost_mebibytes_cell},
       {"products MiB", number_cell("product_bytes", "{:.4g}", 0x1p-20)},
       {"FLOP/byte", number_cell("intensity", "{:.4g}")}},
      rows, {"GFLOP", "products MiB"});
}

Table cost_times(const RecordRefs& records) {
  const CostNames names(records);
  Table table{.title = "least time in ms, and what bounds it",
              .columns = {"work", "dtype", "FLOP/byte"}};
  std::vector<std::string> devices, works;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  for (const Record* record : cost_records(records)) {
    const std::string work = work_with_dtype(names, *record), device = names.ceilings(*record);
    add_once(devices, device);
    if (std::ranges::count(works, work) == 0) {
      works.push_back(work);
      table.rows.push_back({names.work(*record), text_of(record->workload, "dtype"),
                            cell(metric_number(*record, "intensity"), "{:.4g}")});
    }
    const auto least = metric_number(*record, "least_ms");
    cells[{work, device}] = least ? fmt::format("{:.4g} {}", *least, metric_text(*record, "bound"))
                                  : std::string(status_csv_word(record->status));
  }
  for (const std::string& device : devices) {
    table.columns.push_back(device);
    for (size_t row = 0; row < works.size(); ++row)
      table.rows[row].push_back(cells[{works[row], device}]);
  }
  return table;
}

std::vector<std::string> cost_notes(const RecordRefs& records) {
  const std::vector<const Record*> rows = cost_records(records);
  const CostNames names(records);
  std::vector<std::string> notes, on_paper, measured;
  for (const Record* record : rows) {
    if (is_measured(*record))
      add_once(measured, text_of(record->workload, "ceilings"));
    else
      add_once(on_paper, text_of(record->workload, "ceilings"));
  }
  if (!on_paper.empty())
    notes.push_back(
        fmt::format("{}: dense peaks and bandwidth of the data sheets, not measured: bounds on "
                    "products in that "
                    "arithmetic, which kernels come close to at best",
                    fmt::join(on_paper, ", ")));
  if (!measured.empty())
    notes.push_back(
        fmt::format("{}: ceilings that `ridgeline roofline` measured", fmt::join(measured, ", ")));
  for (std::string& note : prefill_and_decode(names, rows)) notes.push_back(std::move(note));
  for (std::string& note : cache_notes(names, rows)) notes.push_back(std::move(note));
  for (const Record* record : rows)
    if (record->status != Status::ok) add_once(notes, record->error);
  if (!rows.empty()) {
    add_once(notes, rows.front()->cost->convention);
    notes.emplace_back(
        "the least time is the longer of products at the peak and of bytes at the bandwidth of "
        "memory, if all of it overlaps; node_by_node_ms in the CSV is the sum of that over nodes");
  }
  return notes;
}

}  // namespace ridgeline

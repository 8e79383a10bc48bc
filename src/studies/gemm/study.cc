// The gemm study: matrix products from three loops to the library's, over sizes.
#include <fmt/format.h>

#include "studies/gemm/row.h"
#include "studies/gemm/tables.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Gemm final : public Study {
 public:
  Gemm() { shared.protocol = {.warmups = 3, .iterations = 100, .time_budget = "1s"}; }

  void declare(Flags& flags) override {
    add_implementations(flags, &matrix_.implementations,
                        "naive, tiled, simd, library (default: all that the device has)",
                        names_of(kGemmImplementations));
    flags.add("--op", &matrix_.ops, "gemm, gemv: what --size makes", {.shows_default = true});
    flags.add("--size", &matrix_.sizes, "of square problems");
    flags.add("--shape", &shapes_, "M,N,K of one problem; give it again for more; N = 1 is a gemv",
              {.splits = false});
    add_dtypes(flags, &matrix_.dtypes).rules.shows_default = true;
    flags.add("--mode", &mode_, "hot, or cold: the last cache emptied before a sample",
              {.shows_default = true, .choices = {"hot", "cold"}, .only_choices = true});
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared, {.list = "implementations, ops, modes, sizes and dtypes"});
  }

  std::string list() const override {
    std::string text =
        "implementations:\n" + listed(kGemmImplementations) +
        "ops:\n"
        "  gemm         C[size,size] = A[size,size] B[size,size]\n"
        "  gemv         y[size] = A[size,size] x[size]\n"
        "modes:\n"
        "  hot          the same operands over and over; small ones stay in a cache\n"
        "  cold         the last cache is emptied before every sample\n"
        "sizes without --size and --shape:\n";
    for (const bool on_gpu : {false, true}) {
      text += fmt::format("  {:<12}", on_gpu ? "cuda" : "cpu");
      for (int64_t size : default_gemm_sizes(on_gpu)) text += fmt::format(" {}", size);
      text += "\n";
    }
    return text + "dtypes:\n  fp32, bf16, fp16; tf32 for the library on a GPU\n";
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const std::vector<GemmWorkload> workloads = expand_matrix(matrix(run.device));
    ceilings_ = stored_ceilings(run.results_dir, run.device, run.blank.machine);
    study_.emplace(run.device, GemmStudyOptions{.row = row_options(run, shared),
                                                .cold = mode_ == "cold",
                                                .roofline = ceilings_ ? &*ceilings_ : nullptr});
    return rows_of(workloads, *study_, run, [&](const GemmWorkload& workload) {
      const GemmShape& shape = workload.shape;
      return fmt::format("ridgeline gemm{} --mode {} --impl {} --shape {},{},{} --dtype {}",
                         shared_words(run, shared), mode_, workload.implementation, shape.m,
                         shape.n, shape.k, info(workload.dtype).name);
    });
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const PhaseCost& cost = row.described.cost->forward;
    return {{"MMAC", fmt::format("{:.4g}", static_cast<double>(cost.macs) / 1e6)},
            {"FLOP/byte", fmt::format("{:.4g}", static_cast<double>(cost.flops) /
                                                    static_cast<double>(cost.bytes.count))}};
  }

  bool set_up(const StudySetup& setup) override {
    matrix_.sizes = setup.device.facts().is_gpu() ? std::vector<int64_t>{1024, 4096}
                                                  : std::vector<int64_t>{256, 512};
    return setup.attempt == 0;
  }

 private:
  GemmMatrix matrix(const Device& device) const {
    GemmMatrix matrix = matrix_;
    matrix.shapes = parsed(shapes_, parse_gemm_shape);
    if (matrix.sizes.empty() && matrix.shapes.empty())
      matrix.sizes = default_gemm_sizes(device.facts().is_gpu());
    if (matrix.implementations.empty()) matrix.implementations = gemm_implementations_of(device);
    return matrix;
  }

  GemmMatrix matrix_ = {.implementations = {}};
  Words shapes_;
  std::string mode_ = "hot";
  std::optional<Roofline> ceilings_;
  std::optional<GemmStudy> study_;
};

}  // namespace

StudyInfo gemm_study() {
  return {
      .name = "gemm",
      .summary = "matrix products: naive, tiled and the library's, with their place under the roof",
      .examples =
          "Examples:\n"
          "  ridgeline roofline && ridgeline gemm                every rung, as shares of the "
          "measured roof\n"
          "  ridgeline gemm --op gemv --mode cold --size 8192 --dtype bf16\n"
          "  ridgeline gemm --impl library --shape 4096,4096,1024 --num-iterations 50",
      .make = make_study<Gemm>,
      .csv = gemm_csv,
      .title = "GEMM lab",
      .table = gemm_summary,
      .notes = with_verdicts<gemm_notes>,
      .in_reports = "Matrix products",
      .sections = {gemm_section},
      .setting_axes = {"mode"},
      .takes_turns = true,
      .turn = 2};
}

}  // namespace ridgeline

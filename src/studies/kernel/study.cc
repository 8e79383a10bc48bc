// The kernel study: one attention kernel, measured hot, cold and in a launch graph.
#include <fmt/format.h>

#include "studies/attention/workload.h"
#include "studies/kernel/own_row.h"
#include "studies/kernel/own_worker.h"
#include "studies/kernel/row.h"
#include "studies/kernel/tables.h"
#include "studies/peers/peers.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Kernel final : public Study {
 public:
  Kernel() { shared.protocol = {.warmups = 200, .iterations = 500}; }

  void declare(Flags& flags) override {
    Words implementations = names_of(attention_implementations());
    for (const PeerImplementation& peer : kAttentionPeers) implementations.emplace_back(peer.name);
    add_implementations(flags, &implementations_, "implementations, such as flash,naive",
                        implementations)
        .rules.shows_default = true;
    flags.add("--shape", &shapes_,
              "batch,heads,sequence,width; give it again for more shapes (default: the four "
              "that --list shows)",
              {.splits = false});
    add_dtypes(flags, &dtypes_).rules.shows_default = true;
    flags.add("--mode", &modes_, "hot, cold, cold-rotate, graph (default: all that the device has)",
              {.choices = names_of(kKernelModes)});
    add_causal(flags, &causal_);
    add_backward(flags, &backward_);
    constexpr FlagRange kCalls{1, 10'000};
    flags.add("--calls-per-sample", &calls_per_sample_,
              "calls back to back in one sample, hot and cold-rotate (default: 10 on a GPU, "
              "so that its queue stays filled, 1 on a CPU)",
              {.range = kCalls});
    flags.add("--graph-calls", &graph_calls_, "calls in one launch graph",
              {.shows_default = true, .range = kCalls});
    flags.add("--source", &source_,
              "a CUDA kernel of your own, measured beside the others (a .cu file)",
              {.needs = {"--entry"}});
    flags.add("--entry", &entry_, "the name of your kernel", {.needs = {"--source"}});
    flags.add("--time-limit", &time_limit_,
              "of your kernel: one that runs longer is ended and called hanging",
              {.shows_default = true});
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared, {.list = "implementations, modes, shapes and dtypes"});
  }

  std::string list() const override {
    std::string text = "implementations:\n";
    for (const AttentionImplementation& implementation : attention_implementations())
      if (!info(implementation.mode).fuse)
        text += listed(implementation.name, implementation.summary);
    text += kAttentionPeers.list() + "modes:\n" + listed(kKernelModes);
    text += "shapes (batch, heads, sequence, head width) without --shape:\n";
    for (const AttentionConfig& shape : KernelMatrix().shapes)
      text += fmt::format("  {},{},{},{}\n", shape.batch_size, shape.heads, shape.seq_len,
                          shape.head_dim);
    return text + kListedDtypes;
  }

  void check() override { time_limit_s_ = parse_seconds(time_limit_); }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const std::vector<KernelWorkload> workloads = expand_matrix(matrix(run.device));
    options_ = {.row = row_options(run, shared),
                .backward = backward_.asked,
                .calls_per_sample = calls_per_sample_,
                .graph_calls = graph_calls_};
    study_.emplace(run.device, options_);
    peers_.emplace(run.device, run.interrupted);
    if (!source_.empty())
      own_.emplace(run.device,
                   OwnKernel{.source = source_,
                             .entry = entry_,
                             .time_limit_s = time_limit_s_,
                             .worker_words = {std::filesystem::read_symlink("/proc/self/exe"),
                                              std::string(kOwnKernelWorkerCommand)}},
                   options_);
    std::vector<StudyRow> rows = rows_of(
        workloads, *study_, run,
        [&](const KernelWorkload& workload) { return row_command(shared_command(run), workload); });
    for (size_t i = 0; i < rows.size(); ++i)
      if (workloads[i].origin != Origin::ridgeline)
        rows[i].run = [this, workload = workloads[i], record = rows[i].described] {
          return workload.origin == Origin::own ? own_->run(workload, record)
                                                : peers_->run_kernel(workload, options_, record);
        };
    return rows;
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const auto flops = static_cast<double>(row.described.cost->forward.flops);
    return {{"MFLOP forward", fmt::format("{:.3f}", flops / 1e6)}};
  }

  std::string own_implementation() const override { return entry_; }

  bool set_up(const StudySetup& setup) override {
    const bool on_gpu = setup.device.facts().is_gpu();
    dtypes_ = {"bf16"};
    if (!on_gpu) modes_ = {"hot"};
    shared.protocol.warmups = on_gpu ? 20 : 5;
    return setup.attempt == 0;
  }

 private:
  KernelMatrix matrix(const Device& device) const {
    KernelMatrix matrix{.implementations = implementations_,
                        .own = entry_,
                        .dtypes = dtypes_,
                        .modes = modes_of(device),
                        .causal = causal_,
                        .backward = backward_algorithms(backward_.algorithms, device.facts())};
    if (!shapes_.empty()) matrix.shapes = parsed(shapes_, parse_kernel_shape);
    if (!modes_.empty()) matrix.modes = kKernelModes.find_all(modes_, &KernelModeInfo::mode);
    return matrix;
  }

  std::string shared_command(const StudyRun& run) const {
    std::string command = "ridgeline kernel" + shared_words(run, shared);
    if (calls_per_sample_ > 0) command += fmt::format(" --calls-per-sample {}", calls_per_sample_);
    if (graph_calls_ != KernelStudyOptions().graph_calls)
      command += fmt::format(" --graph-calls {}", graph_calls_);
    return command;
  }

  std::string row_command(const std::string& command, const KernelWorkload& workload) const {
    const AttentionConfig& config = workload.config;
    const std::string who =
        workload.origin == Origin::own
            ? fmt::format("--source {} --entry {} --time-limit {}", source_, entry_, time_limit_)
            : "--impl " + workload.implementation;
    return fmt::format("{} {} --shape {},{},{},{} --dtype {} --mode {}{}{}", command, who,
                       config.batch_size, config.heads, config.seq_len, config.head_dim,
                       info(config.dtype).name, info(workload.mode).name,
                       config.causal ? " --causal" : "",
                       backward_.asked ? fmt::format(" --backward {}", name(config.backward)) : "");
  }

  Words implementations_ = {"flash"};
  Words shapes_, modes_;
  Words dtypes_ = {"fp16", "bf16"};
  BackwardFlags backward_;
  bool causal_ = false;
  int calls_per_sample_ = 0;
  int graph_calls_ = KernelStudyOptions().graph_calls;
  std::string source_;  // of the user's own kernel; empty: none
  std::string entry_;
  std::string time_limit_ = "10s";
  double time_limit_s_ = 0;
  KernelStudyOptions options_;
  std::optional<KernelStudy> study_;
  std::optional<Peers> peers_;
  std::optional<OwnKernelStudy> own_;
};

}  // namespace

StudyInfo kernel_study() {
  return {
      .name = "kernel",
      .summary = "latency and rates of one attention kernel: hot, cold, in a launch graph",
      .examples =
          "Examples:\n"
          "  ridgeline kernel                                    the matrix of shapes, fp16 and "
          "bf16\n"
          "  ridgeline kernel --shape 32,8,256,64 --mode hot,graph --dtype bf16\n"
          "  ridgeline kernel --impl flash,naive --backward --shape 1,16,4096,64 --num-iterations "
          "50\n"
          "  ridgeline kernel --impl flash,torch.sdpa.cudnn --shape 1,16,4096,64   beside PyTorch\n"
          "  ridgeline kernel --source mine.cu --entry my_attention   a kernel of your own",
      .make = make_study<Kernel>,
      .csv = kernel_csv,
      .title = "Kernel study",
      .table = kernel_summary,
      .notes = kernel_notes,
      .in_reports = "Attention kernels",
      .sections = {kernel_section},
      .setting_axes = {"mode"},
      .takes_turns = true,
      .writes_array = true,
      .turn = 3};
}

}  // namespace ridgeline

#include "kernels/cuda/pointwise/fused.h"

#include <algorithm>

#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr int kUsualThreads = 256;
constexpr int64_t kPacksOfAWarp = 4;     // rows of up to so many packs per thread use one warp
constexpr int64_t kPacksOfABlock = 4;    // packs per thread of longer rows, which use a block
constexpr int64_t kFewRows = 264;        // do not fill a GPU: one pack per thread then
constexpr int64_t kRegisters = 96;       // of a thread, for what it keeps of a row
constexpr double kRegisterFile = 65536;  // of a multiprocessor
constexpr int64_t kMostChunks = 16;      // packs of a row that a thread keeps

// The widest access that all operands which are read along the columns allow.
int pack_of(const FusedKernel& kernel, const FusedWalk& walk) {
  PackWidth pack(DType::boolean);
  pack.require_multiple(walk.columns);
  const Interleaving interleaving = find_interleaving(kernel, walk);
  const auto limit = [&](const FusedOperand& operand, const FusedWalk::Steps& steps, int partner) {
    if (operand.is_position || steps.column == 0) return;
    const int64_t lanes = partner == kAlone ? 1 : 2;  // elements per column in one access
    // Where elements have a stride, adjacent threads read adjacent columns.
    pack.limit_to(steps.column == lanes ? 16 / (info(operand.dtype).size * lanes) : 1);
    if (steps.column != lanes) return;
    pack.require_multiple(operand.offset / lanes);
    for (int64_t step : steps.rows) {
      pack.require_multiple(step / lanes);
      if (step % lanes != 0) pack.limit_to(1);
    }
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    limit(kernel.inputs[i], walk.inputs[i], interleaving.inputs[i]);
  for (size_t i = 0; i < kernel.results.size(); ++i)
    limit(kernel.results[i].to, walk.results[i], interleaving.results[i]);
  return static_cast<int>(pack.get());
}

// Registers that a thread needs per column for what it keeps between passes.
double held_per_column(const FusedKernel& kernel) {
  const Program program = make_program(kernel);
  std::vector<int> loads(kernel.steps.size());
  for (const ColumnPass& pass : program.passes)
    for (uint32_t step : pass.loads) ++loads[step];
  auto held = static_cast<double>(program.kept.size());
  for (size_t i = 0; i < loads.size(); ++i)
    if (loads[i] > 1) held += info(kernel.steps[i].dtype).size / 4.0;
  return held;
}

}  // namespace

CudaShape cuda_shape(const FusedKernel& kernel) {
  const FusedWalk walk = make_walk(kernel);
  CudaShape shape;
  shape.pack = pack_of(kernel, walk);
  shape.wide_index = walk.rows() * walk.columns >= (int64_t{1} << 31);
  if (kernel.kind == FusedKind::column) {
    shape.pack = std::min(shape.pack, 4);
    return shape;
  }
  if (!kernel.has_folds()) return shape;
  const int64_t packs = walk.columns / shape.pack;
  const bool is_alone = walk.rows() <= kFewRows && packs > kWarp;
  if (packs <= kWarp * kPacksOfAWarp && !is_alone) {
    shape.group = static_cast<int>(std::min<int64_t>(kWarp, next_power_of_two(packs)));
    shape.threads = kUsualThreads;
  } else {
    const int64_t wanted = next_power_of_two(divide_up(packs, is_alone ? 1 : kPacksOfABlock));
    shape.group = static_cast<int>(std::clamp<int64_t>(wanted, 2 * kWarp, kMostThreads));
    shape.threads = shape.group;
  }
  const int64_t chunks = divide_up(packs, shape.group);
  const double registers = held_per_column(kernel) * static_cast<double>(chunks * shape.pack);
  // Half of what the launch bound leaves to a thread; the rest is for addresses and arithmetic.
  const double budget = std::min<double>(kRegisters, kRegisterFile / (2.0 * shape.threads));
  const bool fits = chunks <= kMostChunks && registers <= budget;
  shape.chunks = fits ? static_cast<int>(chunks) : 0;
  return shape;
}

CudaFusedKernel::CudaFusedKernel(const FusedKernel& kernel) {
  const FusedWalk walk = make_walk(kernel);
  const CudaShape shape = cuda_shape(kernel);
  CudaText text = emit_cuda(kernel, shape);
  rows_ = walk.rows();
  columns_ = walk.columns;
  parts_ = column_parts(kernel);
  main_.kernel = {.file = text.entry + ".cu", .entry = text.entry, .text = std::move(text.text)};
  main_.threads = static_cast<uint32_t>(shape.threads);
  if (kernel.kind == FusedKind::column) {
    main_.threads = kColumnLanes * kColumnLines;
    main_.grid = {static_cast<uint32_t>(divide_up(columns_, kColumnLanes * shape.pack)),
                  static_cast<uint32_t>(parts_), 1};
    CudaText finish = emit_cuda_finish(kernel);
    finish_.kernel = {
        .file = finish.entry + ".cu", .entry = finish.entry, .text = std::move(finish.text)};
    finish_.threads = kColumnLanes * kColumnLines;
    finish_.grid = {static_cast<uint32_t>(divide_up(columns_, kColumnLanes)), 1, 1};
    has_finish_ = true;
  } else if (kernel.has_folds()) {
    main_.grid[0] = static_cast<uint32_t>(divide_up(rows_, shape.threads / shape.group));
  } else {
    main_.grid[0] =
        static_cast<uint32_t>(divide_up(rows_ * (columns_ / shape.pack), shape.threads));
  }

  const auto word = [&](int64_t value) { words_.push_back(static_cast<uint64_t>(value)); };
  word(rows_);
  word(columns_);
  word(parts_);
  word(0);  // the address of the parts
  for (int64_t size : walk.sizes) word(size);
  for (size_t i = 0; i < text.constants.size(); i += 2) {
    float pair[2] = {text.constants[i], i + 1 < text.constants.size() ? text.constants[i + 1] : 0};
    uint64_t bits = 0;
    std::memcpy(&bits, pair, sizeof bits);
    words_.push_back(bits);
  }
  const auto operand = [&](const FusedOperand& of, const FusedWalk::Steps& steps,
                           std::vector<size_t>& places, std::vector<int64_t>& offsets) {
    places.push_back(words_.size());
    offsets.push_back(of.offset * (of.is_position ? 1 : info(of.dtype).size));
    word(0);
    word(steps.column);
    for (int64_t step : steps.rows) word(step);
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    operand(kernel.inputs[i], walk.inputs[i], input_words_, input_offsets_);
    is_position_.push_back(kernel.inputs[i].is_position);
  }
  for (size_t i = 0; i < kernel.results.size(); ++i)
    operand(kernel.results[i].to, walk.results[i], output_words_, output_offsets_);
}

std::vector<CudaKernel> CudaFusedKernel::kernels() const {
  std::vector<CudaKernel> all = {main_.kernel};
  if (has_finish_) all.push_back(finish_.kernel);
  return all;
}

std::vector<CudaLaunch> CudaFusedKernel::launches(std::span<void* const> inputs,
                                                  std::span<void* const> outputs,
                                                  void* scratch) const {
  std::vector<uint64_t> words = words_;
  const auto address = [](const void* base, int64_t offset) {
    return reinterpret_cast<uint64_t>(base) + static_cast<uint64_t>(offset);
  };
  words[3] = address(scratch, 0);
  for (size_t i = 0; i < inputs.size(); ++i)
    words[input_words_[i]] = address(is_position_[i] ? nullptr : inputs[i], input_offsets_[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    words[output_words_[i]] = address(outputs[i], output_offsets_[i]);
  const auto set_words = [](CudaLaunch& launch, const std::vector<uint64_t>& all) {
    launch.params.resize(all.size() * sizeof(uint64_t));
    std::memcpy(launch.params.data(), all.data(), launch.params.size());
  };
  std::vector<CudaLaunch> launches = {main_};
  set_words(launches[0], words);
  if (has_finish_) {
    std::vector<uint64_t> finish(words.begin(), words.begin() + 4);
    for (size_t i = 0; i < outputs.size(); ++i)
      finish.push_back(address(outputs[i], output_offsets_[i]));
    launches.push_back(finish_);
    set_words(launches[1], finish);
  }
  return launches;
}

}  // namespace ridgeline

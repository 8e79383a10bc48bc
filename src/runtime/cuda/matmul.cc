#include "runtime/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "kernels/cuda/matmul/few_rows.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "runtime/cuda/cublaslt_api.h"
#include "runtime/cuda/matmul_layout.h"

namespace ridgeline {
namespace {

using cublaslt::check;

constexpr Bytes kWorkspace{int64_t{32} << 20};
constexpr int kAlgorithms = 8;        // requested from the library's heuristic, best guess first
constexpr int kRepetitions = 3;       // timings per algorithm, of which the best counts
constexpr double kWindowMs = 0.2;     // short products are repeated to fill this time
constexpr double kWorthwhile = 0.97;  // replaces the best only below this fraction of its time
constexpr int64_t kMaxAlignment = 256;
// The gain of our kernel from reading weights while the previous kernel ends, which timing it alone
// does not show.
constexpr double kEarlyReadsMs = 0.001;

// Everything that a prepared product depends on.
struct Request {
  BatchedGemm gemm;
  std::array<int64_t, 4> alignments{};   // of a, b, out and addend, in bytes
  int epilogue = cublaslt::kNoEpilogue;  // the library's bits
  int64_t bias_alignment = 0;
  bool adds = false;
  bool is_plain = true;     // without scale and epilogue
  bool b_is_kept = false;   // no kernel of the graph writes it (TensorView::is_kept)
  int multiprocessors = 0;  // at most; 0: all
  bool operator==(const Request&) const = default;
};

struct RequestHash {
  size_t operator()(const Request& request) const {
    const BatchedGemm& g = request.gemm;
    size_t all = static_cast<size_t>(g.dtype) * 16 + static_cast<size_t>(g.out_dtype);
    for (int64_t value : {g.m,
                          g.n,
                          g.k,
                          g.batch,
                          int64_t{g.a.transposed},
                          g.a.leading,
                          g.a.batch_stride,
                          int64_t{g.b.transposed},
                          g.b.leading,
                          g.b.batch_stride,
                          g.out_batch_stride,
                          request.alignments[0],
                          request.alignments[1],
                          request.alignments[2],
                          request.alignments[3],
                          int64_t{request.epilogue},
                          request.bias_alignment,
                          int64_t{request.adds},
                          int64_t{request.is_plain},
                          int64_t{request.b_is_kept},
                          int64_t{request.multiprocessors}})
      all = (all ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u;
    return all ^ (all >> 32);
  }
};

cublaslt::DataType data_type(DType dtype) {
  if (dtype == DType::bf16) return cublaslt::kRealBf16;
  if (dtype == DType::f16) return cublaslt::kReal16;
  return cublaslt::kReal32;
}

// Products of fp32 never use TF32.
cublaslt::ComputeType compute_type(DType dtype) {
  return dtype == DType::tf32 ? cublaslt::kCompute32FastTf32 : cublaslt::kCompute32;
}

// Owns an object of the library.
template <class Object, cublaslt::Status (*cublaslt::Api::*destroy)(Object)>
struct Owned {
  Object object = nullptr;

  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object != nullptr) (cublaslt::api().*destroy)(object);
  }
};
using OwnedHandle = Owned<cublaslt::Handle, &cublaslt::Api::cublasLtDestroy>;
using OwnedDesc = Owned<cublaslt::MatmulDesc, &cublaslt::Api::cublasLtMatmulDescDestroy>;
using OwnedLayout = Owned<cublaslt::MatrixLayout, &cublaslt::Api::cublasLtMatrixLayoutDestroy>;
using OwnedPreference =
    Owned<cublaslt::Preference, &cublaslt::Api::cublasLtMatmulPreferenceDestroy>;

// The library is column-major, and a row-major product is its transpose with swapped operands: so
// `first` is b and `second` is a.
struct Prepared {
  OwnedDesc desc;
  OwnedLayout first, second, out;
  cublaslt::Algorithm algorithm{};
  std::optional<CudaLaunch> own = {};  // our kernel, if it is faster
};

struct Addresses {
  const void* a;
  const void* b;
  void* out;
  const void* addend;  // `out` if there is none, which is not read
  const void* bias;    // null: none
};

// The factors of the product and of the addend (alpha, beta).
struct Factors {
  float scale, addend;
};

int epilogue_bits(const Product& product) {
  int bits = 0;
  if (product.bias) bits |= cublaslt::kBias;
  if (product.activation == Activation::relu) bits |= cublaslt::kRelu;
  if (product.activation == Activation::gelu) bits |= cublaslt::kGelu;
  return bits == 0 ? int{cublaslt::kNoEpilogue} : bits;
}

template <class T>
void set_attribute(const OwnedDesc& desc, cublaslt::DescAttribute which, const T& value) {
  check(cublaslt::api().cublasLtMatmulDescSetAttribute(desc.object, which, &value, sizeof value),
        "describing a matrix product");
}

void make_layout(OwnedLayout& layout, DType dtype, int64_t batch, int64_t rows, int64_t columns,
                 const MatmulOperand& operand) {
  const cublaslt::Api& api = cublaslt::api();
  if (operand.transposed) std::swap(rows, columns);
  check(
      api.cublasLtMatrixLayoutCreate(&layout.object, data_type(dtype), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), operand.leading),
      "describing a matrix");
  const auto count = static_cast<int32_t>(batch);
  check(api.cublasLtMatrixLayoutSetAttribute(layout.object, cublaslt::kBatchCount, &count,
                                             sizeof count),
        "describing a batch");
  check(api.cublasLtMatrixLayoutSetAttribute(layout.object, cublaslt::kBatchStride,
                                             &operand.batch_stride, sizeof operand.batch_stride),
        "describing a batch");
}

void describe(Prepared& prepared, const Request& request, const void* bias) {
  const cublaslt::Api& api = cublaslt::api();
  const BatchedGemm& gemm = request.gemm;
  if (gemm.batch > std::numeric_limits<int32_t>::max())
    throw Error(
        ErrorKind::unsupported,
        fmt::format("a batch of {} matrix products is more than cuBLASLt takes", gemm.batch),
        "use a smaller batch");
  check(api.cublasLtMatmulDescCreate(&prepared.desc.object, compute_type(gemm.dtype),
                                     cublaslt::kReal32),
        "describing a matrix product");
  const auto transpose = [](const MatmulOperand& operand) -> int32_t {
    return operand.transposed ? cublaslt::kTransposed : cublaslt::kAsIs;
  };
  set_attribute(prepared.desc, cublaslt::kTransposeA, transpose(gemm.b));
  set_attribute(prepared.desc, cublaslt::kTransposeB, transpose(gemm.a));
  if (request.epilogue != cublaslt::kNoEpilogue)
    set_attribute(prepared.desc, cublaslt::kEpilogue, static_cast<uint32_t>(request.epilogue));
  if (request.multiprocessors > 0)
    set_attribute(prepared.desc, cublaslt::kMultiprocessors, int32_t{request.multiprocessors});
  // Set already here, as the available algorithms depend on the alignment of the address.
  if (bias != nullptr) set_attribute(prepared.desc, cublaslt::kBiasPointer, bias);
  make_layout(prepared.first, gemm.dtype, gemm.batch, gemm.n, gemm.k, gemm.b);
  make_layout(prepared.second, gemm.dtype, gemm.batch, gemm.k, gemm.m, gemm.a);
  make_layout(prepared.out, gemm.out_dtype, gemm.batch, gemm.n, gemm.m,
              {.leading = gemm.n, .batch_stride = gemm.out_batch_stride});
}

// The largest power of two, up to kMaxAlignment, that divides an address and its steps in bytes.
int64_t alignment(const void* data, std::initializer_list<int64_t> steps, DType dtype) {
  auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data)) | kMaxAlignment;
  for (int64_t step : steps) bits |= static_cast<uint64_t>(step * info(dtype).size);
  return int64_t{1} << std::countr_zero(bits);
}

FewRowsProduct few_rows_of(const Request& request, const Addresses& addresses) {
  const BatchedGemm& gemm = request.gemm;
  return {.x = addresses.a,
          .w = addresses.b,
          .out = addresses.out,
          .x_stride = gemm.a.leading,
          .w_stride = gemm.b.leading,
          .out_stride = gemm.n,
          .tokens = gemm.m,
          .rows = gemm.n,
          .columns = gemm.k,
          .dtype = gemm.dtype,
          .weights_are_kept = request.b_is_kept};
}

void* shifted(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * info(dtype).size;
}

}  // namespace

struct CudaMatmul::Library {
  OwnedHandle handle;
  std::unordered_map<Request, Prepared, RequestHash> prepared;

  Library() { check(cublaslt::api().cublasLtCreate(&handle.object), "starting cuBLASLt"); }

  void multiply(const Prepared& product, const cublaslt::Algorithm& algorithm,
                const Addresses& addresses, const Factors& factors, const CudaBuffer& workspace,
                CudaQueue& queue) const {
    if (addresses.bias != nullptr)
      set_attribute(product.desc, cublaslt::kBiasPointer, addresses.bias);
    queue.before_start();
    check(cublaslt::api().cublasLtMatmul(
              handle.object, product.desc.object, &factors.scale, addresses.b, product.first.object,
              addresses.a, product.second.object, &factors.addend, addresses.addend,
              product.out.object, addresses.out, product.out.object, &algorithm, workspace.data(),
              static_cast<size_t>(workspace.bytes().count), queue.stream()),
          "multiplying matrices");
  }

  std::vector<cublaslt::HeuristicResult> candidates(const Prepared& product, const Request& request,
                                                    const CudaBuffer& workspace) const {
    const cublaslt::Api& api = cublaslt::api();
    OwnedPreference preference;
    check(api.cublasLtMatmulPreferenceCreate(&preference.object), "asking for algorithms");
    const auto set = [&](cublaslt::PreferenceAttribute attribute, auto value) {
      check(api.cublasLtMatmulPreferenceSetAttribute(preference.object, attribute, &value,
                                                     sizeof value),
            "asking for algorithms");
    };
    set(cublaslt::kMaxWorkspaceBytes, static_cast<uint64_t>(workspace.bytes().count));
    // Partial sums are reduced in fp32, so that a sum is rounded to 16 bits once.
    set(cublaslt::kReductionSchemes, static_cast<uint32_t>(cublaslt::kReduceInComputeType));
    set(cublaslt::kMinAlignmentA, static_cast<uint32_t>(request.alignments[1]));
    set(cublaslt::kMinAlignmentB, static_cast<uint32_t>(request.alignments[0]));
    set(cublaslt::kMinAlignmentC, static_cast<uint32_t>(request.alignments[3]));
    set(cublaslt::kMinAlignmentD, static_cast<uint32_t>(request.alignments[2]));
    std::vector<cublaslt::HeuristicResult> results(kAlgorithms);
    int found = 0;
    const cublaslt::Status status = api.cublasLtMatmulAlgoGetHeuristic(
        handle.object, product.desc.object, product.first.object, product.second.object,
        product.out.object, product.out.object, preference.object, kAlgorithms, results.data(),
        &found);
    results.resize(static_cast<size_t>(found));
    std::erase_if(results, [](const auto& result) { return result.state != cublaslt::kSuccess; });
    if (status != cublaslt::kSuccess || results.empty()) {
      const BatchedGemm& g = request.gemm;
      const std::string more = request.epilogue == cublaslt::kNoEpilogue
                                   ? ""
                                   : fmt::format(" with epilogue {}", request.epilogue);
      throw Error(
          ErrorKind::unsupported,
          fmt::format("cuBLASLt has no algorithm for {} products [{}, {}] x [{}, {}] in {}{} "
                      "(status {})",
                      g.batch, g.m, g.k, g.k, g.n, info(g.dtype).name, more, status),
          "use other sizes or another dtype");
    }
    return results;
  }

  // Times the library's proposals. An earlier one stays unless a later one is clearly faster.
  cublaslt::Algorithm fastest(const Prepared& product, const Request& request,
                              const Addresses& addresses, const Factors& factors,
                              const CudaBuffer& workspace, CudaQueue& queue) const {
    const auto proposals = candidates(product, request, workspace);
    double best = std::numeric_limits<double>::infinity();
    const cublaslt::Algorithm* chosen = nullptr;
    for (const auto& proposal : proposals) {
      try {
        const auto once = [&] {
          multiply(product, proposal.algorithm, addresses, factors, workspace, queue);
        };
        const double first = queue.time_ms(once);  // loads the kernel
        if (first > 4 * best && first > 1) continue;
        const int together = std::clamp(static_cast<int>(kWindowMs / first), 1, 20);
        double time = std::numeric_limits<double>::infinity();
        for (int i = 0; i < kRepetitions; ++i)
          time = std::min(time, queue.time_ms([&] {
            for (int repeat = 0; repeat < together; ++repeat) once();
          }) / together);
        if (time < best * kWorthwhile) {
          best = time;
          chosen = &proposal.algorithm;
        }
      } catch (const Error&) {
        if (queue.lost()) throw;  // otherwise skips a proposal that does not run
      }
    }
    if (chosen == nullptr)
      throw Error(ErrorKind::environment, "none of cuBLASLt's algorithms ran",
                  "`ridgeline doctor` lists the versions of driver and libraries");
    return *chosen;
  }
};

// The most rows for which our own kernel is tried. It supports up to 64, but was checked on a GPU
// for these only.
constexpr int64_t kMostTriedRows = 16;

// Returns the fastest way of our own kernel, or nullopt if the library is faster.
static std::optional<CudaLaunch> faster_launch(const Request& request, const Addresses& addresses,
                                               const std::function<void()>& by_library,
                                               const CudaFacts& facts, CudaQueue& queue,
                                               KernelStore& kernels) {
  const BatchedGemm& gemm = request.gemm;
  if (!request.is_plain || gemm.batch != 1 || gemm.a.transposed || !gemm.b.transposed ||
      gemm.dtype != gemm.out_dtype)
    return {};
  const FewRowsProduct product = few_rows_of(request, addresses);
  if (product.tokens > kMostTriedRows) return {};
  const std::vector<CudaLaunch> ways = plan_few_rows(product, facts);
  if (ways.empty()) return {};
  std::vector<CudaKernel> texts;
  for (const CudaLaunch& way : ways) texts.push_back(way.kernel);
  kernels.load(texts);
  // With an L2 that is cold for the operands, as it is for the kernels of a whole model.
  const CudaBuffer other(queue, Bytes{2 * facts.l2_bytes}, "emptying the last cache");
  const auto best_ms = [&](const std::function<void()>& work) {
    double shortest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepetitions; ++i) {
      queue.before_start();
      queue.check(queue.driver().cuMemsetD8Async(
                      other.address(), 0, static_cast<size_t>(other.bytes().count), queue.stream()),
                  "emptying the last cache");
      shortest = std::min(shortest, queue.time_ms(work));
    }
    return shortest;
  };
  double best = best_ms(by_library) * kWorthwhile + (request.b_is_kept ? kEarlyReadsMs : 0);
  std::optional<CudaLaunch> chosen;
  for (const CudaLaunch& way : ways)
    if (const double ms = best_ms([&] { kernels.run(way); }); ms < best) {
      best = ms;
      chosen = way;
    }
  return chosen;
}

CudaMatmul::CudaMatmul(CudaQueue& queue, KernelStore& kernels, Ledger& ledger,
                       const CudaFacts& facts, AlgorithmChoice choice)
    : queue_(queue),
      kernels_(kernels),
      ledger_(ledger),
      facts_(facts),
      choice_(choice),
      workspace_(queue, kWorkspace, "taking the workspace of matrix products") {}

CudaMatmul::~CudaMatmul() = default;

void CudaMatmul::run(const Product& product) {
  const TensorView& out = product.out;
  std::array<TensorView, 2> operands = {product.a, product.b};
  std::array<Allocation, 2> copies;
  for (size_t i = 0; i < operands.size(); ++i) {
    TensorView& operand = operands[i];
    if (library_can_read(operand)) continue;
    TensorView copy = operand;
    copy.strides = contiguous_strides(copy.shape);
    copy.host_scalar = copy.is_kept = false;
    copies[i] = ledger_.allocate(byte_size({copy.dtype, copy.shape}), "matmul operand");
    copy.data = copies[i].data();
    kernels_.run(plan_copy(operand, copy));
    operand = copy;
  }
  const MatmulCalls calls = matmul_calls(operands[0], operands[1], out);
  const BatchedGemm& gemm = calls.gemm;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return;
  if (gemm.k == 0) {  // the planner gives it no epilogue
    queue_.before_start();
    queue_.check(queue_.driver().cuMemsetD8Async(
                     reinterpret_cast<cuda::DevicePointer>(out.data), 0,
                     static_cast<size_t>(byte_size({out.dtype, out.shape}).count), queue_.stream()),
                 "clearing an empty product");
    return;
  }
  if (!library_) {
    queue_.require_no_capture("starting cuBLASLt");
    side_workspace_ = CudaBuffer(queue_, kWorkspace, "taking a workspace of matrix products");
    library_ = std::make_unique<Library>();
  }
  const DType dtype = gemm.dtype;
  const Factors factors = {static_cast<float>(product.scale), product.addend ? 1.0f : 0.0f};
  for (const GemmOffsets& offsets : calls.offsets) {
    const auto shifted_out = [&](const TensorView& view) {
      return shifted(view.data, offsets.out, gemm.out_dtype);
    };
    const Addresses addresses = {shifted(operands[0].data, offsets.a, dtype),
                                 shifted(operands[1].data, offsets.b, dtype), shifted_out(out),
                                 shifted_out(product.addend.value_or(out)),
                                 product.bias ? product.bias->data : nullptr};
    const Request request = {
        .gemm = gemm,
        .alignments = {alignment(addresses.a, {gemm.a.batch_stride}, dtype),
                       alignment(addresses.b, {gemm.b.batch_stride}, dtype),
                       alignment(addresses.out, {gemm.out_batch_stride}, gemm.out_dtype),
                       alignment(addresses.addend, {gemm.out_batch_stride}, gemm.out_dtype)},
        .epilogue = epilogue_bits(product),
        .bias_alignment = product.bias ? alignment(addresses.bias, {}, gemm.out_dtype) : 0,
        .adds = product.addend.has_value(),
        .is_plain = product.scale == 1 && !product.addend && !product.bias &&
                    product.activation == Activation::none,
        .b_is_kept = operands[1].is_kept,
        .multiprocessors = facts_.reserved_multiprocessors > 0 ? facts_.multiprocessors : 0};
    auto found = library_->prepared.find(request);
    if (found == library_->prepared.end()) {
      queue_.require_no_capture("choosing the algorithm of a matrix product");
      const SetupClock::Scope setup(queue_.setup());
      found = library_->prepared.try_emplace(request).first;
      try {
        describe(found->second, request, addresses.bias);
        found->second.algorithm =
            choice_ == AlgorithmChoice::first
                ? library_->candidates(found->second, request, workspace_).front().algorithm
                : library_->fastest(found->second, request, addresses, factors, workspace_, queue_);
        const auto by_library = [&] {
          library_->multiply(found->second, found->second.algorithm, addresses, factors, workspace_,
                             queue_);
        };
        if (choice_ == AlgorithmChoice::fastest)
          found->second.own =
              faster_launch(request, addresses, by_library, facts_, queue_, kernels_);
      } catch (...) {
        library_->prepared.erase(found);
        throw;
      }
    }
    if (found->second.own) {
      CudaLaunch own = *found->second.own;
      own.set_params(few_rows_params(few_rows_of(request, addresses)));
      kernels_.run(own);
      continue;
    }
    library_->multiply(found->second, found->second.algorithm, addresses, factors,
                       queue_.on_side() ? side_workspace_ : workspace_, queue_);
  }
}

}  // namespace ridgeline

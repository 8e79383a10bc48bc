#include "runtime/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "kernels/cuda/pointwise.h"
#include "runtime/cuda/cublaslt_api.h"
#include "runtime/cuda/matmul_layout.h"

namespace ridgeline {
namespace {

using cublaslt::check;

constexpr Bytes kWorkspace{int64_t{32} << 20};
constexpr int kAlgorithms = 8;        // of the library's list, best guess first
constexpr int kRepetitions = 3;       // timed for each, the best counts
constexpr double kWindowMs = 0.2;     // short products are timed several at a time
constexpr double kWorthwhile = 0.97;  // of the time; less is noise, and the guess stays
constexpr int64_t kMaxAlignment = 256;

// All that a prepared product depends on.
struct Request {
  BatchedGemm gemm;
  std::array<int64_t, 3> alignments{};  // of a, b and out, in bytes
  bool operator==(const Request&) const = default;
};

struct RequestHash {
  size_t operator()(const Request& request) const {
    const BatchedGemm& g = request.gemm;
    size_t all = static_cast<size_t>(g.dtype) * 16 + static_cast<size_t>(g.out_dtype);
    for (int64_t value :
         {g.m, g.n, g.k, g.batch, int64_t{g.a.transposed}, g.a.leading, g.a.batch_stride,
          int64_t{g.b.transposed}, g.b.leading, g.b.batch_stride, g.out_batch_stride,
          request.alignments[0], request.alignments[1], request.alignments[2]})
      all = (all ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u;
    return all ^ (all >> 32);
  }
};

cublaslt::DataType data_type(DType dtype) {
  if (dtype == DType::bf16) return cublaslt::kRealBf16;
  if (dtype == DType::f16) return cublaslt::kReal16;
  return cublaslt::kReal32;
}

// fp32 is never TF32 behind its name.
cublaslt::ComputeType compute_type(DType dtype) {
  return dtype == DType::tf32 ? cublaslt::kCompute32FastTf32 : cublaslt::kCompute32;
}

// An object of the library that is destroyed with this.
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

// The library counts in columns: a row-major product is its transpose, with the operands swapped.
// So `first` is b and `second` is a.
struct Prepared {
  OwnedDesc desc;
  OwnedLayout first, second, out;
  cublaslt::Algorithm algorithm{};
  size_t workspace_bytes = 0;
};

struct Addresses {
  const void* a;
  const void* b;
  void* out;
};

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

void describe(Prepared& prepared, const BatchedGemm& gemm) {
  const cublaslt::Api& api = cublaslt::api();
  if (gemm.batch > std::numeric_limits<int32_t>::max())
    throw Error(
        ErrorKind::unsupported,
        fmt::format("a batch of {} matrix products is more than cuBLASLt takes", gemm.batch),
        "use a smaller batch");
  check(api.cublasLtMatmulDescCreate(&prepared.desc.object, compute_type(gemm.dtype),
                                     cublaslt::kReal32),
        "describing a matrix product");
  const auto set_transpose = [&](cublaslt::DescAttribute which, bool transposed) {
    const int32_t value = transposed ? cublaslt::kTransposed : cublaslt::kAsIs;
    check(api.cublasLtMatmulDescSetAttribute(prepared.desc.object, which, &value, sizeof value),
          "describing a matrix product");
  };
  set_transpose(cublaslt::kTransposeA, gemm.b.transposed);
  set_transpose(cublaslt::kTransposeB, gemm.a.transposed);
  make_layout(prepared.first, gemm.dtype, gemm.batch, gemm.n, gemm.k, gemm.b);
  make_layout(prepared.second, gemm.dtype, gemm.batch, gemm.k, gemm.m, gemm.a);
  make_layout(prepared.out, gemm.out_dtype, gemm.batch, gemm.n, gemm.m,
              {.leading = gemm.n, .batch_stride = gemm.out_batch_stride});
}

// The largest power of two that divides an address and every step from it.
int64_t alignment(const void* data, std::initializer_list<int64_t> steps, DType dtype) {
  auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data)) | kMaxAlignment;
  for (int64_t step : steps) bits |= static_cast<uint64_t>(step * info(dtype).size);
  return int64_t{1} << std::countr_zero(bits);
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
                const Addresses& addresses, const CudaBuffer& workspace, CudaQueue& queue) const {
    const float alpha = 1, beta = 0;
    check(cublaslt::api().cublasLtMatmul(
              handle.object, product.desc.object, &alpha, addresses.b, product.first.object,
              addresses.a, product.second.object, &beta, addresses.out, product.out.object,
              addresses.out, product.out.object, &algorithm, workspace.data(),
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
    set(cublaslt::kMinAlignmentA, static_cast<uint32_t>(request.alignments[1]));
    set(cublaslt::kMinAlignmentB, static_cast<uint32_t>(request.alignments[0]));
    set(cublaslt::kMinAlignmentC, static_cast<uint32_t>(request.alignments[2]));
    set(cublaslt::kMinAlignmentD, static_cast<uint32_t>(request.alignments[2]));
    std::vector<cublaslt::HeuristicResult> results(kAlgorithms);
    int found = 0;
    const cublaslt::Status status = api.cublasLtMatmulAlgoGetHeuristic(
        handle.object, product.desc.object, product.first.object, product.second.object,
        product.out.object, product.out.object, preference.object, kAlgorithms, results.data(),
        &found);
    if (status != cublaslt::kSuccess || found == 0) {
      const BatchedGemm& g = request.gemm;
      throw Error(ErrorKind::unsupported,
                  fmt::format("cuBLASLt has no algorithm for {} products [{}, {}] x [{}, {}] in {} "
                              "(status {})",
                              g.batch, g.m, g.k, g.k, g.n, info(g.dtype).name, status),
                  "use other sizes or another dtype");
    }
    results.resize(static_cast<size_t>(found));
    std::erase_if(results, [](const auto& result) { return result.state != cublaslt::kSuccess; });
    return results;
  }

  // Times what the library proposes. Its guess stays unless another is clearly faster.
  cublaslt::Algorithm fastest(const Prepared& product, const Request& request,
                              const Addresses& addresses, const CudaBuffer& workspace,
                              CudaQueue& queue) const {
    const auto proposals = candidates(product, request, workspace);
    double best = std::numeric_limits<double>::infinity();
    const cublaslt::Algorithm* chosen = nullptr;
    for (const auto& proposal : proposals) {
      try {
        const auto once = [&] {
          multiply(product, proposal.algorithm, addresses, workspace, queue);
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
        if (queue.lost()) throw;  // else a proposal that does not run is no choice
      }
    }
    if (chosen == nullptr)
      throw Error(ErrorKind::environment, "none of cuBLASLt's algorithms ran",
                  "`ridgeline doctor` lists the versions of driver and libraries");
    return *chosen;
  }
};

CudaMatmul::CudaMatmul(CudaQueue& queue, KernelStore& kernels, Ledger& ledger,
                       AlgorithmChoice choice)
    : queue_(queue),
      kernels_(kernels),
      ledger_(ledger),
      choice_(choice),
      workspace_(queue, kWorkspace, "taking the workspace of matrix products") {}

CudaMatmul::~CudaMatmul() = default;

void CudaMatmul::run(const TensorView& a, const TensorView& b, const TensorView& out) {
  std::array<TensorView, 2> operands = {a, b};
  std::array<Allocation, 2> copies;
  for (size_t i = 0; i < operands.size(); ++i) {
    TensorView& operand = operands[i];
    if (library_can_read(operand)) continue;
    TensorView copy = operand;
    copy.strides = contiguous_strides(copy.shape);
    copy.host_scalar = false;
    copies[i] = ledger_.allocate(byte_size({copy.dtype, copy.shape}), "matmul operand");
    copy.data = copies[i].data();
    kernels_.run(plan_copy(operand, copy));
    operand = copy;
  }
  const MatmulCalls calls = matmul_calls(operands[0], operands[1], out);
  const BatchedGemm& gemm = calls.gemm;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return;
  if (gemm.k == 0) {
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
  for (const GemmOffsets& offsets : calls.offsets) {
    const Addresses addresses = {shifted(operands[0].data, offsets.a, dtype),
                                 shifted(operands[1].data, offsets.b, dtype),
                                 shifted(out.data, offsets.out, gemm.out_dtype)};
    const Request request = {gemm,
                             {alignment(addresses.a, {gemm.a.batch_stride}, dtype),
                              alignment(addresses.b, {gemm.b.batch_stride}, dtype),
                              alignment(addresses.out, {gemm.out_batch_stride}, gemm.out_dtype)}};
    auto found = library_->prepared.find(request);
    if (found == library_->prepared.end()) {
      queue_.require_no_capture("choosing the algorithm of a matrix product");
      found = library_->prepared.try_emplace(request).first;
      try {
        describe(found->second, gemm);
        found->second.algorithm =
            choice_ == AlgorithmChoice::first
                ? library_->candidates(found->second, request, workspace_).front().algorithm
                : library_->fastest(found->second, request, addresses, workspace_, queue_);
      } catch (...) {
        library_->prepared.erase(found);
        throw;
      }
    }
    library_->multiply(found->second, found->second.algorithm, addresses,
                       queue_.on_side() ? side_workspace_ : workspace_, queue_);
  }
}

}  // namespace ridgeline

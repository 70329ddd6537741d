#include "backend/cuda/linear_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/log.h"

namespace mlxcel::cuda {
namespace {

// The functions that are used, by name.
struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  cublasLtHandle_t handle = nullptr;
};

std::optional<Library> open_library() {
  void* file = nullptr;
  for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
    if (file == nullptr) file = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (file == nullptr) {
    log::info("cuBLASLt is not installed (libcublasLt.so.13): prompts run on our own kernels");
    return std::nullopt;
  }
  Library lib;
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
    complete = complete && function != nullptr;
  };
  find(lib.create, "cublasLtCreate");
  find(lib.desc_create, "cublasLtMatmulDescCreate");
  find(lib.desc_set, "cublasLtMatmulDescSetAttribute");
  find(lib.desc_destroy, "cublasLtMatmulDescDestroy");
  find(lib.layout_create, "cublasLtMatrixLayoutCreate");
  find(lib.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(lib.preference_create, "cublasLtMatmulPreferenceCreate");
  find(lib.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(lib.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(lib.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lib.matmul, "cublasLtMatmul");
  if (!complete || lib.create(&lib.handle) != CUBLAS_STATUS_SUCCESS) {
    log::warn("cuBLASLt cannot be used: prompts run on our own kernels");
    return std::nullopt;
  }
  return lib;
}

const std::optional<Library>& library() {
  static const std::optional<Library> instance = open_library();
  return instance;
}

void check_library(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Code::Internal, "cuBLASLt failed with status " + std::to_string(status));
}

// The library's own descriptions of one product. It thinks in columns: y^T = w x^T.
class Descriptions {
 public:
  Descriptions(const Library& lib, const LibraryProduct& p) : lib_(lib) {
    check_library(lib.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_library(
        lib.desc_set(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
    const auto rows = static_cast<uint64_t>(p.rows), m = static_cast<uint64_t>(p.m),
               k = static_cast<uint64_t>(p.k);
    check_library(lib.layout_create(&w, CUDA_R_16BF, k, rows, p.w_stride));
    check_library(lib.layout_create(&x, CUDA_R_16BF, k, m, p.x_stride));
    check_library(lib.layout_create(&y, p.y_bf16 ? CUDA_R_16BF : CUDA_R_32F, rows, m, p.rows));
  }
  ~Descriptions() {
    lib_.desc_destroy(operation);
    for (cublasLtMatrixLayout_t each : {w, x, y}) lib_.layout_destroy(each);
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;

 private:
  const Library& lib_;
};

// No algorithm that splits the columns: its sums would come in another order.
std::optional<cublasLtMatmulAlgo_t> choose(const Library& lib, LibraryProduct p) {
  p.m = 2048;
  const Descriptions d(lib, p);
  cublasLtMatmulPreference_t preference = nullptr;
  check_library(lib.preference_create(&preference));
  const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint64_t no_workspace = 0;
  check_library(lib.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                   &no_reduction, sizeof(no_reduction)));
  check_library(lib.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                   &no_workspace, sizeof(no_workspace)));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      lib.heuristic(lib.handle, d.operation, d.w, d.x, d.y, d.y, preference, 1, &best, &found);
  lib.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return std::nullopt;
  return best.algo;
}

using ShapeKey = std::tuple<int64_t, int64_t, int64_t, int64_t, bool>;

}  // namespace

bool library_available() { return library().has_value(); }

bool library_product(const LibraryProduct& p) {
  if (!library()) return false;
  const Library& lib = *library();
  static std::mutex mutex;  // guards the map
  static std::map<ShapeKey, std::optional<cublasLtMatmulAlgo_t>> algorithms;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  {
    const std::lock_guard lock(mutex);
    const ShapeKey key{p.rows, p.k, p.w_stride, p.x_stride, p.y_bf16};
    auto it = algorithms.find(key);
    if (it == algorithms.end()) it = algorithms.emplace(key, choose(lib, p)).first;
    algorithm = it->second;
  }
  if (!algorithm) return false;
  const Descriptions d(lib, p);
  const float one = 1.0F, beta = p.accumulate ? 1.0F : 0.0F;
  check_library(lib.matmul(lib.handle, d.operation, &one, p.w, d.w, p.x, d.x, &beta, p.y, d.y, p.y,
                           d.y, &*algorithm, nullptr, 0, stream()));
  return true;
}

void report_disagreement(int64_t rows, int64_t cols, int64_t differences, int64_t sums) {
  log::warn(
      "cuBLASLt adds products of {} x {} in another order ({} of {} sums differ): prompts run "
      "on our own kernels",
      rows, cols, differences, sums);
}

}  // namespace mlxcel::cuda

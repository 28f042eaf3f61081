// The functions of cuFFT and cuBLAS that this program calls, each of which
// loads its library at the first call. Ordinary linking would cost 200 MB and a
// tenth of a second at every start, even if the program never uses a GPU.
#include <cublas_v2.h>
#include <cufft.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace {

#define SUBQUAD_TEXT_OF(number) #number
#define SUBQUAD_TEXT(number) SUBQUAD_TEXT_OF(number)
constexpr const char* kCufft = "libcufft.so." SUBQUAD_TEXT(CUFFT_VER_MAJOR);
constexpr const char* kCublas = "libcublas.so." SUBQUAD_TEXT(CUBLAS_VER_MAJOR);

// Loads a library by name, through the system's search path and
// LD_LIBRARY_PATH, or from the toolkit that this program was compiled with.
void* Load(const char* library) {
  if (void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL)) return loaded;
  const std::string reason = dlerror();
  const std::string path = std::string(SUBQUAD_CUDA_LIBRARIES) + "/" + library;
  if (void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return loaded;
  throw std::runtime_error("cannot load " + std::string(library) + ": " +
                           reason);
}

// Calls a function of a library. The arguments determine its type; below they
// are parameters declared as in NVIDIA's headers.
template <typename Result, typename... Arguments>
Result Call(void* library, const char* name, Arguments... arguments) {
  void* found = dlsym(library, name);
  if (!found) throw std::runtime_error(std::string(name) + ": " + dlerror());
  return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
}

void* Cufft() {
  static void* const library = Load(kCufft);
  return library;
}

void* Cublas() {
  static void* const library = Load(kCublas);
  return library;
}

}  // namespace

// The headers rename some functions (cublasCreate is cublasCreate_v2), so the
// names are made from the macros' expansions.
extern "C" {

cufftResult CUFFTAPI cufftCreate(cufftHandle* handle) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftCreate), handle);
}

cufftResult CUFFTAPI cufftDestroy(cufftHandle plan) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftDestroy), plan);
}

cufftResult CUFFTAPI cufftSetAutoAllocation(cufftHandle plan, int automatic) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftSetAutoAllocation), plan,
                           automatic);
}

cufftResult CUFFTAPI cufftSetWorkArea(cufftHandle plan, void* area) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftSetWorkArea), plan, area);
}

cufftResult CUFFTAPI cufftMakePlanMany64(
    cufftHandle plan, int rank, long long int* extents, long long int* inembed,
    long long int istride, long long int idist, long long int* onembed,
    long long int ostride, long long int odist, cufftType type,
    long long int batch, size_t* bytes) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftMakePlanMany64), plan,
                           rank, extents, inembed, istride, idist, onembed,
                           ostride, odist, type, batch, bytes);
}

cufftResult CUFFTAPI cufftExecC2C(cufftHandle plan, cufftComplex* from,
                                  cufftComplex* to, int direction) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftExecC2C), plan, from, to,
                           direction);
}

cufftResult CUFFTAPI cufftGetVersion(int* version) {
  return Call<cufftResult>(Cufft(), SUBQUAD_TEXT(cufftGetVersion), version);
}

cublasStatus_t CUBLASWINAPI cublasCreate(cublasHandle_t* handle) {
  return Call<cublasStatus_t>(Cublas(), SUBQUAD_TEXT(cublasCreate), handle);
}

cublasStatus_t CUBLASWINAPI cublasSetWorkspace(cublasHandle_t handle,
                                               void* area, size_t bytes) {
  return Call<cublasStatus_t>(Cublas(), SUBQUAD_TEXT(cublasSetWorkspace),
                              handle, area, bytes);
}

cublasStatus_t CUBLASWINAPI cublasGetProperty(libraryPropertyType type,
                                              int* value) {
  return Call<cublasStatus_t>(Cublas(), SUBQUAD_TEXT(cublasGetProperty), type,
                              value);
}

const char* CUBLASWINAPI cublasGetStatusString(cublasStatus_t status) {
  return Call<const char*>(Cublas(), SUBQUAD_TEXT(cublasGetStatusString),
                           status);
}

cublasStatus_t CUBLASWINAPI cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void* alpha, const void* a, cudaDataType a_type,
    int lda, long long int a_stride, const void* b, cudaDataType b_type,
    int ldb, long long int b_stride, const void* beta, void* c,
    cudaDataType c_type, int ldc, long long int c_stride, int count,
    cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return Call<cublasStatus_t>(
      Cublas(), SUBQUAD_TEXT(cublasGemmStridedBatchedEx), handle, transa,
      transb, m, n, k, alpha, a, a_type, lda, a_stride, b, b_type, ldb,
      b_stride, beta, c, c_type, ldc, c_stride, count, compute, algorithm);
}

}  // extern "C"

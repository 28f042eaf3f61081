// toeplitz_1d on the GPU: out[i] = sum_j w(j - i) v[j]
//
//   fft   circulant embedding with cuFFT, all columns of all heads in one
//         batch: a load kernel transposes and pads, a kernel multiplies the
//         spectra, a store kernel transposes back. float32.
//
// Not yet run on a device: see the table in the README.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/buffer.h"
#include "cuda/check.h"
#include "cuda/device.h"
#include "cuda/implementations.h"

namespace subquad {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;

// columns[(h*e + c) * stride + j] = values[h][j][c], zero beyond n.
__global__ void LoadColumns(const float* values, int64_t n, int64_t e,
                            int64_t stride, float* columns) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t head = blockIdx.z;
  const int64_t j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t j = j0 + k, c = c0 + threadIdx.x;
    tile[k][threadIdx.x] =
        j < n && c < e ? values[(head * n + j) * e + c] : 0.0f;
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t c = c0 + k, j = j0 + threadIdx.x;
    if (c < e && j < stride)
      columns[(head * e + c) * stride + j] = tile[threadIdx.x][k];
  }
}

// out[h][i][c] = columns[(h*e + c) * stride + i].
__global__ void StoreColumns(const float* columns, int64_t n, int64_t e,
                             int64_t stride, float* out) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t head = blockIdx.z;
  const int64_t j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t c = c0 + k, j = j0 + threadIdx.x;
    tile[k][threadIdx.x] =
        c < e && j < n ? columns[(head * e + c) * stride + j] : 0.0f;
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t j = j0 + k, c = c0 + threadIdx.x;
    if (j < n && c < e) out[(head * n + j) * e + c] = tile[threadIdx.x][k];
  }
}

// spectrum[h][m mod L] = w(-m) for m = i - j in [-(n_k-1), n_q-1].
__global__ void LoadWeights(const float* weights, int64_t n_q, int64_t n_k,
                            bool causal, int64_t length, int64_t stride,
                            float* spectrum) {
  const int64_t m = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t head = blockIdx.y;
  if (m >= stride) return;
  float value = 0;
  if (m < n_q)
    value = weights[head * (n_q + n_k - 1) + n_q - 1 - m];
  else if (!causal && m < length && length - m < n_k)
    value = weights[head * (n_q + n_k - 1) + n_q - 1 + length - m];
  spectrum[head * stride + m] = value;
}

// columns *= spectrum / L; one spectrum for `columns_per_spectrum` columns.
__global__ void Multiply(const cufftComplex* spectrum, int64_t bins,
                         int64_t columns_per_spectrum, float factor,
                         cufftComplex* columns) {
  const int64_t k = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t column = blockIdx.y;
  if (k >= bins) return;
  const cufftComplex w =
      spectrum[column / columns_per_spectrum * bins + k];
  cufftComplex& v = columns[column * bins + k];
  v = {(w.x * v.x - w.y * v.y) * factor, (w.x * v.y + w.y * v.x) * factor};
}

int64_t GoodLength(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t odd : {3, 5, 7, 9, 15}) {
    int64_t length = 2 * odd;
    while (length < n) length *= 2;
    best = std::min(best, length);
  }
  return std::max<int64_t>(best, 2);
}

class CufftPlan {
 public:
  CufftPlan(int64_t length, int64_t batch, cufftType type) {
    int n[] = {static_cast<int>(length)};
    const int reals = static_cast<int>(2 * (length / 2 + 1));
    int real_embed[] = {reals}, complex_embed[] = {reals / 2};
    const bool forward = type == CUFFT_R2C;
    SUBQUAD_CUDA_CHECK(cufftPlanMany(
        &plan_, 1, n, forward ? real_embed : complex_embed, 1,
        forward ? reals : reals / 2, forward ? complex_embed : real_embed, 1,
        forward ? reals / 2 : reals, type, static_cast<int>(batch)));
  }
  ~CufftPlan() { cufftDestroy(plan_); }
  CufftPlan(const CufftPlan&) = delete;
  CufftPlan& operator=(const CufftPlan&) = delete;
  cufftHandle get() const { return plan_; }

 private:
  cufftHandle plan_ = 0;
};

class CudaFft : public Prepared {
 public:
  CudaFft(const Problem& problem, const Arrays& arrays)
      : n_q_(problem.Dim("n_q")),
        n_k_(problem.Dim("n_k")),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        spectra_(problem.PerHead("weights") ? problem.heads : 1),
        causal_(problem.params.Flag("causal")),
        length_(GoodLength(n_q_ + n_k_ - 1)),
        stride_(2 * (length_ / 2 + 1)),
        weights_(spectra_ * (n_q_ + n_k_ - 1)),
        values_(heads_ * n_k_ * e_),
        out_(heads_ * n_q_ * e_),
        spectrum_(spectra_ * stride_),
        columns_(heads_ * e_ * stride_),
        weight_plan_(length_, spectra_, CUFFT_R2C),
        forward_(length_, heads_ * e_, CUFFT_R2C),
        backward_(length_, heads_ * e_, CUFFT_C2R),
        host_out_(arrays.Out<float>("out").data) {
    weights_.Upload(arrays.In<float>("weights").data);
    values_.Upload(arrays.In<float>("values").data);
  }

  void Run() override {
    const dim3 threads(kTile, kRows);
    const int64_t bins = stride_ / 2;
    const auto blocks = [](int64_t n, int64_t size) {
      return static_cast<unsigned>((n + size - 1) / size);
    };
    LoadWeights<<<dim3(blocks(stride_, 256), static_cast<unsigned>(spectra_)),
                  256>>>(weights_.data(), n_q_, n_k_, causal_, length_, stride_,
                         spectrum_.data());
    SUBQUAD_CUDA_CHECK(cudaGetLastError());
    auto* spectrum = reinterpret_cast<cufftComplex*>(spectrum_.data());
    auto* columns = reinterpret_cast<cufftComplex*>(columns_.data());
    SUBQUAD_CUDA_CHECK(
        cufftExecR2C(weight_plan_.get(), spectrum_.data(), spectrum));
    const dim3 grid(blocks(stride_, kTile), blocks(e_, kTile),
                    static_cast<unsigned>(heads_));
    LoadColumns<<<grid, threads>>>(values_.data(), n_k_, e_, stride_,
                                   columns_.data());
    SUBQUAD_CUDA_CHECK(cudaGetLastError());
    SUBQUAD_CUDA_CHECK(cufftExecR2C(forward_.get(), columns_.data(), columns));
    Multiply<<<dim3(blocks(bins, 256), static_cast<unsigned>(heads_ * e_)),
               256>>>(spectrum, bins, spectra_ == 1 ? heads_ * e_ : e_,
                      1.0f / static_cast<float>(length_), columns);
    SUBQUAD_CUDA_CHECK(cudaGetLastError());
    SUBQUAD_CUDA_CHECK(cufftExecC2R(backward_.get(), columns, columns_.data()));
    const dim3 store(blocks(n_q_, kTile), blocks(e_, kTile),
                     static_cast<unsigned>(heads_));
    StoreColumns<<<store, threads>>>(columns_.data(), n_q_, e_, stride_,
                                     out_.data());
    SUBQUAD_CUDA_CHECK(cudaGetLastError());
    out_.Download(host_out_);
  }

 private:
  const int64_t n_q_, n_k_, e_, heads_, spectra_;
  const bool causal_;
  const int64_t length_, stride_;
  DeviceBuffer<float> weights_, values_, out_, spectrum_, columns_;
  CufftPlan weight_plan_, forward_, backward_;
  float* host_out_;
};

double Squares(const double* values, int64_t count, int64_t stride) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += values[i * stride] * values[i * stride];
  return sum;
}

// As for optimized/toeplitz_1d.cc: 2 log2(L) u |w|_2 |v|_2.
RowBound CudaFftBound(const Problem& problem, const Inputs& inputs) {
  const int64_t n_q = problem.Dim("n_q"), n_k = problem.Dim("n_k");
  const int64_t e = problem.Dim("e");
  const double factor =
      2 * std::log2(static_cast<double>(GoodLength(n_q + n_k - 1)));
  std::vector<double> units;
  for (int64_t h = 0; h < problem.heads; ++h) {
    const double w = Squares(inputs["weights"].Head(h), n_q + n_k - 1, 1);
    for (int64_t c = 0; c < e; ++c)
      units.push_back(
          factor *
          std::sqrt(w * Squares(inputs["values"].Head(h) + c, n_k, e)));
  }
  return [units, e](const RowId& id, std::span<double> row) {
    std::copy_n(units.begin() + id.head * e, e, row.begin());
  };
}

// Two transforms per column and one per vector of weights, 2.5 L log2 L
// operations each; the workspace is the padded columns and spectra, with as
// much again for cuFFT's own area.
Cost CudaFftCost(const Problem& problem, int) {
  const int64_t n_q = problem.Dim("n_q"), n_k = problem.Dim("n_k");
  const double length = static_cast<double>(GoodLength(n_q + n_k - 1));
  const double spectra =
      problem.PerHead("weights") ? static_cast<double>(problem.heads) : 1;
  const double columns = static_cast<double>(problem.heads * problem.Dim("e"));
  return {.flops = (2 * columns + spectra) * 2.5 * length * std::log2(length),
          .bytes = TensorBytes(problem),
          .workspace_bytes =
              2 * (columns + spectra) * (length + 2) * sizeof(float)};
}

}  // namespace

std::vector<Implementation> Toeplitz1dCudaImplementations() {
  Implementation fft;
  fft.op = "toeplitz_1d";
  fft.id = "fft";
  fft.backend = Backend::kCuda;
  fft.scalars = {Scalar::kFloat32};
  fft.what = "circulant embedding, cuFFT on all columns in one batch";
  fft.source = "FastRPB eq. 13-18, proposition 3.1";
  fft.time = "O(e n log n)";
  fft.memory = "O(e n)";
  fft.time_class = "n log n";
  fft.memory_class = "n";
  fft.why_not = [](const Problem& problem) -> std::string {
    if (problem.backward) return "the backward pass runs on the CPU only";
    return Device().why_not;
  };
  fft.norm_bound = CudaFftBound;
  fft.cost = CudaFftCost;
  fft.prepare = [](const Problem& problem, const Arrays& arrays,
                   const PrepareOptions&) -> std::unique_ptr<Prepared> {
    return std::make_unique<CudaFft>(problem, arrays);
  };
  return {fft};
}

}  // namespace subquad

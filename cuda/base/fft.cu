#include <algorithm>

#include "cuda/base/fft.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
// Columns per thread, all of which are loaded before the first is stored.
constexpr int kColumns = 4;

// The complex numbers of an array, row-major.
struct Points {
  int rows, across;
  // Columns 0 .. Half() - 1 and their mirror images cover all columns.
  __host__ __device__ int Half() const { return across / 2 + 1; }
};

__device__ inline float2 Sum(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
__device__ inline float2 Product(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Computes twice the transforms at k of the elements at even and at odd places,
// from the transform of the pairs at k and at -k: those of real data are
// conjugate there.
struct EvenOdd {
  float2 even, odd;
  __device__ EvenOdd(float2 at, float2 mirror)
      : even(make_float2(at.x + mirror.x, at.y - mirror.y)),
        odd(make_float2(at.y + mirror.y, mirror.x - at.x)) {}
};

// Each thread processes k and -k of kColumns columns.
__global__ void MultiplyPairs(Points points, const float2* vectors,
                              ColumnsOfVectors which, float factor,
                              float2* columns) {
  const int pair = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int k1 = pair / points.Half(), k2 = pair % points.Half();
  const int mirror1 = k1 == 0 ? 0 : points.rows - k1;
  // A column that is its own mirror image contains both members of a pair.
  const bool own = k2 == 0 || 2 * k2 == points.across;
  if (k1 >= points.rows || (own && k1 > mirror1)) return;
  const int at = k1 * points.across + k2;
  const int mirror =
      mirror1 * points.across + (k2 == 0 ? 0 : points.across - k2);
  const int64_t size = static_cast<int64_t>(points.rows) * points.across;
  float2 turn;
  sincospif(-2.0f * static_cast<float>(k2) / static_cast<float>(points.across),
            &turn.y, &turn.x);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kColumns;
  columns += first * size;
  const int count =
      static_cast<int>(min(which.count - first, int64_t{kColumns}));
  float2 ones[kColumns], others[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < count) {
      ones[c] = columns[c * size + at];
      others[c] = columns[c * size + mirror];
    }
  int64_t last = -1;
  float2 even = {}, odd = {}, turned = {};
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (c >= count) break;
    const int64_t vector =
        which.one_vector ? 0 : (which.first + first + c) / which.each;
    if (vector != last) {
      last = vector;
      const float2* w = vectors + vector * size;
      const EvenOdd of(w[at], w[mirror]);
      even = make_float2(of.even.x * factor, of.even.y * factor);
      odd = make_float2(of.odd.x * factor, of.odd.y * factor);
      turned = Product(turn, odd);
    }
    const EvenOdd x(ones[c], others[c]);
    const float2 of_even = Sum(Product(even, x.even), Product(turned, x.odd));
    const float2 of_odd = Sum(Product(even, x.odd), Product(odd, x.even));
    columns[c * size + at] =
        make_float2(of_even.x - of_odd.y, of_even.y + of_odd.x);
    columns[c * size + mirror] =
        make_float2(of_even.x + of_odd.y, of_odd.x - of_even.y);
  }
}

}  // namespace

int64_t GoodFftLength(int64_t n) {
  int64_t best = 2;
  while (best < n) best *= 2;
  for (const int64_t odd : {3, 5, 7, 9, 15}) {
    int64_t length = 2 * odd;
    while (length < n) length *= 2;
    best = std::min(best, length);
  }
  return best;
}

FftPlan::FftPlan(const Layout& layout, const std::vector<int64_t>& lengths,
                 int64_t batch) {
  if (layout.counting()) return;
  std::vector<long long> n(lengths.begin(), lengths.end());
  n.back() /= 2;
  long long points = 1;
  for (const long long extent : n) points *= extent;
  SUBQUAD_CUDA_CHECK(cufftCreate(&plan_.emplace()));
  try {
    SUBQUAD_CUDA_CHECK(cufftSetAutoAllocation(*plan_, 0));
    size_t bytes = 0;
    SUBQUAD_CUDA_CHECK(cufftMakePlanMany64(
        *plan_, static_cast<int>(n.size()), n.data(), n.data(), 1, points,
        n.data(), 1, points, CUFFT_C2C, batch, &bytes));
    area_bytes_ = static_cast<int64_t>(bytes);
  } catch (...) {
    cufftDestroy(*plan_);
    throw;
  }
}

FftPlan::~FftPlan() {
  if (plan_) cufftDestroy(*plan_);
}

void FftPlan::SetArea(void* area) {
  SUBQUAD_CUDA_CHECK(cufftSetWorkArea(*plan_, area));
}

void FftPlan::Execute(float* data, Transform direction) const {
  auto* complex = reinterpret_cast<cufftComplex*>(data);
  SUBQUAD_CUDA_CHECK(cufftExecC2C(
      *plan_, complex, complex,
      direction == Transform::kForward ? CUFFT_FORWARD : CUFFT_INVERSE));
}

void FftArea::Share(Layout& layout, const std::vector<FftPlan*>& plans,
                    double most_bytes) {
  if (layout.counting()) return layout.Add(most_bytes);
  int64_t bytes = 0;
  for (const FftPlan* plan : plans) bytes = std::max(bytes, plan->area_bytes());
  if (bytes > area_.size()) area_ = DeviceBuffer<unsigned char>(layout, bytes);
  for (FftPlan* plan : plans)
    if (area_.data()) plan->SetArea(area_.data());
}

void MultiplyTransforms(const std::vector<int64_t>& lengths,
                        const float* vectors, const ColumnsOfVectors& which,
                        float* columns) {
  const int64_t rows = lengths.size() > 1 ? lengths.front() : 1;
  const int64_t across = lengths.back() / 2;
  if (rows * across > 1 << 30)
    throw DeviceError("too long for one transform: " +
                      std::to_string(2 * rows * across) + " numbers");
  const Points points = {static_cast<int>(rows), static_cast<int>(across)};
  SUBQUAD_LAUNCH(MultiplyPairs,
                 Grid(PiecesOf(rows * points.Half(), kThreads),
                      PiecesOf(which.count, kColumns)),
                 kThreads, 0, points, reinterpret_cast<const float2*>(vectors),
                 which, 0.25f / static_cast<float>(rows * across),
                 reinterpret_cast<float2*>(columns));
}

}  // namespace subquad::device

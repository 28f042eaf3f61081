#include <algorithm>

#include "cuda/base/fft.h"

namespace subquad::device {

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
                 int64_t batch, Transform kind)
    : kind_(kind) {
  if (layout.counting()) return;
  std::vector<long long> n(lengths.begin(), lengths.end());
  std::vector<long long> real = n, complex = n;
  real.back() = FftStride(n.back());
  complex.back() = real.back() / 2;
  long long reals = 1, complexes = 1;
  for (const long long extent : real) reals *= extent;
  for (const long long extent : complex) complexes *= extent;
  const bool forward = kind == Transform::kForward;
  SUBQUAD_CUDA_CHECK(cufftCreate(&plan_.emplace()));
  try {
    SUBQUAD_CUDA_CHECK(cufftSetAutoAllocation(*plan_, 0));
    size_t bytes = 0;
    SUBQUAD_CUDA_CHECK(cufftMakePlanMany64(
        *plan_, static_cast<int>(n.size()), n.data(),
        forward ? real.data() : complex.data(), 1, forward ? reals : complexes,
        forward ? complex.data() : real.data(), 1, forward ? complexes : reals,
        forward ? CUFFT_R2C : CUFFT_C2R, batch, &bytes));
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

void FftPlan::Execute(float* data) const {
  auto* complex = reinterpret_cast<cufftComplex*>(data);
  if (kind_ == Transform::kForward)
    SUBQUAD_CUDA_CHECK(cufftExecR2C(*plan_, data, complex));
  else
    SUBQUAD_CUDA_CHECK(cufftExecC2R(*plan_, complex, data));
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

}  // namespace subquad::device

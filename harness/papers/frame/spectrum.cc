#include "harness/papers/frame/spectrum.h"

#include <Eigen/Eigenvalues>

namespace subquad {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

std::vector<double> Eigenvalues(const std::vector<double>& matrix,
                                int64_t size) {
  const Eigen::MatrixXd copy =
      Eigen::Map<const Matrix>(matrix.data(), size, size);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      copy, Eigen::EigenvaluesOnly);
  return {solver.eigenvalues().data(), solver.eigenvalues().data() + size};
}

std::vector<double> GramMatrix(const std::vector<double>& a, int64_t rows) {
  const auto width = static_cast<int64_t>(a.size()) / rows;
  const Eigen::Map<const Matrix> from(a.data(), rows, width);
  std::vector<double> product(static_cast<size_t>(rows * rows));
  Eigen::Map<Matrix>(product.data(), rows, rows).noalias() =
      from * from.transpose();
  return product;
}

}  // namespace subquad

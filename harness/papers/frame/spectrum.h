// Eigenvalues of symmetric matrices. Eigen stays in the file behind it: it
// takes long to compile.
#pragma once

#include <cstdint>
#include <vector>

namespace subquad {

// Of a symmetric matrix, row after row, from the smallest.
std::vector<double> Eigenvalues(const std::vector<double>& matrix,
                                int64_t size);

// a a^T for a matrix of so many rows.
std::vector<double> GramMatrix(const std::vector<double>& a, int64_t rows);

}  // namespace subquad

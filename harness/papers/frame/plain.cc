#include "harness/papers/frame/plain.h"

#include "harness/machine/memory_counter.h"

namespace subquad {

Numbers Identity(int64_t n) {
  Numbers x(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) x[i * n + i] = 1;
  return x;
}

double Dot(const Numbers& a, int64_t i, const Numbers& b, int64_t j,
           int64_t d) {
  double sum = 0;
  for (int64_t x = 0; x < d; ++x) sum += a[i * d + x] * b[j * d + x];
  return sum;
}

Numbers MatrixProduct(const Numbers& m, const Numbers& x, int64_t inner) {
  const int64_t rows = static_cast<int64_t>(m.size()) / inner;
  const int64_t e = static_cast<int64_t>(x.size()) / inner;
  Numbers out(static_cast<size_t>(rows * e));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < inner; ++j)
      for (int64_t c = 0; c < e; ++c)
        out[i * e + c] += m[i * inner + j] * x[j * e + c];
  return out;
}

Numbers RowsOf(const Numbers& x, int64_t width, int64_t first, int64_t end) {
  return Numbers(x.begin() + first * width, x.begin() + end * width);
}

Numbers Reordered(const Numbers& x, int64_t width,
                  const std::vector<int64_t>& order) {
  Numbers y;
  for (int64_t row : order)
    y.insert(y.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  return y;
}

std::vector<int64_t> Rotated(int64_t n, int64_t by) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = (i + by) % n;
  return order;
}

Numbers Block(const Numbers& m, int64_t columns, int64_t first_row,
              int64_t end_row, int64_t first_column, int64_t end_column) {
  Numbers out;
  for (int64_t i = first_row; i < end_row; ++i)
    for (int64_t j = first_column; j < end_column; ++j)
      out.push_back(m[i * columns + j]);
  return out;
}

Numbers Normalised(int64_t n, const Numbers& v,
                   const std::function<double(int64_t, int64_t)>& weight) {
  const int64_t e = static_cast<int64_t>(v.size()) / n;
  Numbers out(v.size());
  for (int64_t i = 0; i < n; ++i) {
    double normaliser = 0;
    for (int64_t j = 0; j < n; ++j) {
      normaliser += weight(i, j);
      for (int64_t c = 0; c < e; ++c)
        out[i * e + c] += weight(i, j) * v[j * e + c];
    }
    for (int64_t c = 0; c < e; ++c) out[i * e + c] /= normaliser;
  }
  return out;
}

double BytesOf(const std::string& op, const std::string& program, int64_t n,
               const std::vector<std::pair<std::string, std::string>>& values) {
  if (!MemoryCounter::Available()) return NAN;
  CaseRequest request;
  request.op = &FindOperator(op);
  request.n = n;
  request.values = {values.begin(), values.end()};
  const Case one = MakeCase(request);
  Problem problem = ProblemOf(one);
  Inputs inputs = GenerateInputs(one, problem);
  Trial trial(std::move(problem), std::move(inputs), 1);
  const PeakOf peak;
  FindImplementation(op, program)
      .Prepare(trial.problem(), trial.arrays(), {1})
      ->Run();
  return static_cast<double>(peak.bytes());
}

}  // namespace subquad

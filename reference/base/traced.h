// A number that records how it was computed, for derivatives of the definitions
// by reverse-mode differentiation (Linnainmaa 1976), with a running bound of
// its rounding error and of that of every derivative (Wilkinson; Higham 2002,
// section 3.3). The definitions are templates over the type of their numbers
// and differentiate themselves with this one.
//
// A double becomes a variable by its address: reading an entry of an input that
// is declared by Tape::AddInput refers to that entry. A definition must
// therefore convert the entry itself and not a copy of it
// (`const double& w = weights[t]`).
//
// Products of rows and sums of scaled rows are recorded as one operation (Dot
// and AddScaledRow). A row is part of an input, or was declared by AsRow.
//
// Bounds, in units of the roundoff u of the problem's arithmetic. A number
// carries what its operands have handed down and, if it is a sum, the number of
// its additions and the sum of the magnitudes of its terms; |number - exact| <=
// u (inherited + additions magnitude), so that the terms may be added in any
// order. A product x y is off by |x| e_y + |y| e_x + u e_x e_y + |x y|, and a
// quotient and the functions likewise; exp is not linearised. A derivative is a
// sum of products of an adjoint and a partial derivative, which are both
// rounded, and its bound follows from the same rules. Every product and
// quotient may also lose the digits of a number below the smallest normal one,
// and an exponential the whole of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <type_traits>
#include <vector>

#include "reference/base/functions.h"

namespace subquad {

// The bound of an error that grows with every addition.
struct SumError {
  double inherited = 0;  // errors of the terms
  double magnitude = 0;  // sum of |term|
  double additions = 0;

  double Total() const {
    return additions > 0 ? inherited + additions * magnitude : inherited;
  }
  // Returns the bound of the sum of two such sums.
  SumError Plus(const SumError& other) const {
    return {inherited + other.inherited, magnitude + other.magnitude,
            additions + other.additions + 1};
  }
};

// The operations of one thread in the order in which they were done. A node is
// one number: an entry of an input, or the result of an operation.
template <typename Base>
class Tape {
 public:
  static constexpr int32_t kConstant = -1;

  struct Options {
    double roundoff = 0;
    double smallest_normal = 0;
    bool bounds = false;  // of errors
    bool detaches_normalisers = false;
  };
  explicit Tape(const Options& options) : options_(options) {}

  // Makes this tape the one that numbers of this thread are recorded on.
  class Recording {
   public:
    explicit Recording(Tape& tape) : outer_(current_) { current_ = &tape; }
    ~Recording() { current_ = outer_; }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    Tape* const outer_;
  };
  static Tape* Current() { return current_; }

  // Declares entries of an input as variables, before anything is recorded;
  // returns the node of the first one. They must outlive the tape.
  int32_t AddInput(const std::vector<double>& values) {
    const int32_t first = inputs_;
    AddRange(values, first);
    inputs_ += static_cast<int32_t>(values.size());
    return first;
  }
  // Declares an input that is not differentiated.
  void AddConstant(const std::vector<double>& values) {
    AddRange(values, kConstant);
  }

  const Options& options() const { return options_; }

  // True for an entry of an input.
  bool IsInput(const double* at) const { return Find(at) != nullptr; }
  // Returns the node of a variable, or kConstant for another number.
  int32_t NodeOf(const double* at) const {
    const Range* range = Find(at);
    if (!range || range->node == kConstant) return kConstant;
    return range->node + static_cast<int32_t>(at - range->first);
  }

  // Records a result that depends on the nodes x and y (or constants) by these
  // partial derivatives, whose errors are given in units of the roundoff.
  int32_t Record(int32_t x, Base dx, double dx_error, int32_t y, Base dy,
                 double dy_error) {
    nodes_.push_back({x, y, dx, dy});
    if (options_.bounds) errors_.push_back({dx_error, dy_error});
    return Last();
  }

  // A row of numbers with consecutive nodes: entries of an input, or entries
  // that were declared by AddEntry.
  struct Row {
    int32_t node = kConstant;  // of the first number
    const double* input = nullptr;
    size_t entry = 0;  // where there is no input
  };
  Row InputRow(const double* first) const { return {NodeOf(first), first}; }
  Row EntryRow(int32_t first) const {
    return {first, nullptr, static_cast<size_t>(nodes_[Index(first)].y)};
  }

  // Makes a number an entry of a row: returns a node that follows the last one
  // and equals `node`.
  int32_t AddEntry(int32_t node, Base value, double error) {
    const auto entry = static_cast<int32_t>(entries_.size());
    entries_.push_back(node);
    entry_values_.push_back(value);
    entry_errors_.push_back(error);
    return Record(kEntry, Base{0}, 0, entry, Base{0}, 0);
  }
  bool IsEntry(int32_t node) const { return IsKind(node, kEntry); }

  // Computes the sum of the products of two rows, and its bound; records it as
  // one node, which is returned.
  int32_t RecordDot(const Row& x, const Row& y, int64_t width, Base& sum,
                    SumError& error) {
    WithNumbersOf(x, [&](const auto& left) {
      WithNumbersOf(y, [&](const auto& right) {
        AddDot(left, right, width, sum, error);
      });
    });
    rows_.push_back({x, y, kConstant, width, 0, 0});
    return RecordRow(kDot);
  }

  // Makes `width` nodes to which RecordScaledRow adds.
  int32_t RecordSums(int64_t width) {
    const int32_t first = inputs_ + static_cast<int32_t>(nodes_.size());
    for (int64_t c = 0; c < width; ++c)
      Record(kSum, Base{0}, 0, kConstant, Base{0}, 0);
    return first;
  }
  bool IsSum(int32_t node) const { return IsKind(node, kSum); }

  // Records that a factor, which has a node or is constant, times a row was
  // added to the sums from node `sums` on.
  void RecordScaledRow(int32_t sums, int32_t factor, Base value, double error,
                       const Row& row, int64_t width) {
    rows_.push_back({row, {factor}, sums, width, value, error});
    RecordRow(kScaledRow);
  }

  // The number of operations so far.
  size_t Mark() const { return nodes_.size(); }

  // Adds to the derivative of the result by a node.
  void Seed(int32_t node, Base derivative, double error) {
    if (node == kConstant) return;
    Resize();
    Add(node, Base{1}, 0, derivative, error);
  }

  // Hands the derivatives of all operations after `mark` down to what they were
  // computed from, and forgets these operations.
  void SweepAndForget(size_t mark) {
    Resize();
    for (size_t i = nodes_.size(); i-- > mark;) HandDown(i);
    nodes_.resize(mark);
    if (options_.bounds) errors_.resize(mark);
    Resize();
  }

  Base DerivativeOf(int32_t node) const {
    return derivatives_[static_cast<size_t>(node)];
  }
  SumError ErrorOf(int32_t node) const {
    if (!options_.bounds) return {};
    const auto at = static_cast<size_t>(node);
    return {inherited_[at], magnitudes_[at], std::max(terms_[at] - 1, 0.0)};
  }

 private:
  // Kinds of nodes that no operation of two numbers made, in place of x.
  static constexpr int32_t kSum = -2, kDot = -3, kScaledRow = -4, kEntry = -5;

  struct Range {
    const double* first;
    const double* last;
    int32_t node;
  };
  struct Node {
    int32_t x, y;
    Base dx, dy;
  };
  struct Errors {
    double dx, dy;
  };
  // A product of rows x and y, or a row x that was multiplied by the number y
  // and added to sums.
  struct Rows {
    Row x, y;
    int32_t sums;
    int64_t width;
    Base factor;
    double factor_error;
  };
  // The numbers of a row of an input, of one with nodes of its own, and the
  // derivatives by a row of sums.
  struct Exact {
    const double* numbers;
    Base Value(int64_t c) const { return static_cast<Base>(numbers[c]); }
    double Error(int64_t) const { return 0; }
  };
  struct Computed {
    const Base* values;
    const double* errors;
    Base Value(int64_t c) const { return values[c]; }
    double Error(int64_t c) const { return errors[c]; }
  };
  struct Adjoints {
    const Base* derivatives;
    const double *inherited, *magnitudes, *terms;
    Base Value(int64_t c) const { return derivatives[c]; }
    double Error(int64_t c) const {
      return inherited[c] + std::max(terms[c] - 1, 0.0) * magnitudes[c];
    }
  };
  template <typename Function>
  void WithNumbersOf(const Row& row, const Function& function) const {
    if (row.input)
      function(Exact{row.input});
    else
      function(Computed{&entry_values_[row.entry], &entry_errors_[row.entry]});
  }

  void AddRange(const std::vector<double>& values, int32_t node) {
    ranges_.push_back({values.data(), values.data() + values.size(), node});
  }
  const Range* Find(const double* at) const {
    for (const Range& range : ranges_)
      if (at >= range.first && at < range.last) return &range;
    return nullptr;
  }
  size_t Index(int32_t node) const {
    return static_cast<size_t>(node - inputs_);
  }
  int32_t Last() const {
    return inputs_ + static_cast<int32_t>(nodes_.size()) - 1;
  }
  int32_t RecordRow(int32_t kind) {
    return Record(kind, Base{0}, 0, static_cast<int32_t>(rows_.size()) - 1,
                  Base{0}, 0);
  }

  bool IsKind(int32_t node, int32_t kind) const {
    return node >= inputs_ && nodes_[Index(node)].x == kind;
  }

  void Resize() {
    const size_t size = static_cast<size_t>(inputs_) + nodes_.size();
    derivatives_.resize(size);
    if (options_.bounds)
      for (std::vector<double>* errors : {&inherited_, &magnitudes_, &terms_})
        errors->resize(size);
  }

  double ErrorAt(size_t at) const {
    return options_.bounds ? AdjointsFrom(at).Error(0) : 0;
  }
  Adjoints AdjointsFrom(size_t at) const {
    if (!options_.bounds) return {&derivatives_[at], nullptr, nullptr, nullptr};
    return {&derivatives_[at], &inherited_[at], &magnitudes_[at], &terms_[at]};
  }

  // The bound of the error of a product of a number and a factor. A product
  // with an exact zero is no term at all.
  struct Factor {
    double size, error, moved, lost;

    Factor(const Base& factor, double factor_error, const Options& options)
        : size(std::abs(static_cast<double>(factor))),
          error(factor_error),
          moved(size + options.roundoff * factor_error),
          lost(options.smallest_normal) {}
    double ErrorOfProduct(double number, double number_error,
                          double product) const {
      return error * std::abs(number) + number_error * moved +
             std::abs(product) + lost;
    }
  };

  // Adds the product of a partial derivative d and an adjoint a to a node.
  void Add(int32_t to, const Base& d, double d_error, const Base& a,
           double a_error) {
    if (to < 0) return;
    const auto at = static_cast<size_t>(to);
    const Base term = a * d;
    derivatives_[at] += term;
    if (!options_.bounds) return;
    const auto product = static_cast<double>(term);
    inherited_[at] +=
        Factor(a, a_error, options_)
            .ErrorOfProduct(static_cast<double>(d), d_error, product);
    magnitudes_[at] += std::abs(product);
    terms_[at] += 1;
  }

  // Does so for a row of nodes, with one factor in common.
  template <typename Numbers>
  void AddRow(int32_t to, int64_t width, const Numbers& numbers,
              const Base& factor, double factor_error) {
    const auto at = static_cast<size_t>(to);
    Base* __restrict const derivatives = &derivatives_[at];
    if (!options_.bounds) {
      for (int64_t c = 0; c < width; ++c)
        derivatives[c] += factor * numbers.Value(c);
      return;
    }
    double* __restrict const inherited = &inherited_[at];
    double* __restrict const magnitudes = &magnitudes_[at];
    double* __restrict const terms = &terms_[at];
    const Factor common(factor, factor_error, options_);
    for (int64_t c = 0; c < width; ++c) {
      const Base number = numbers.Value(c);
      const double error = numbers.Error(c);
      const Base term = factor * number;
      const auto product = static_cast<double>(term);
      const bool counts = !(number == Base{0} && error == 0);
      derivatives[c] += term;
      inherited[c] += counts ? common.ErrorOfProduct(
                                   static_cast<double>(number), error, product)
                             : 0;
      magnitudes[c] += std::abs(product);
      terms[c] += counts ? 1 : 0;
    }
  }

  // Adds the sum of the products of two rows, and its bound.
  template <typename X, typename Y>
  void AddDot(const X& x, const Y& y, int64_t width, Base& sum,
              SumError& error) const {
    if (!options_.bounds) {
      for (int64_t c = 0; c < width; ++c) sum += x.Value(c) * y.Value(c);
      return;
    }
    double terms = 0;
    for (int64_t c = 0; c < width; ++c) {
      const Base number = x.Value(c), factor = y.Value(c);
      const double number_error = x.Error(c);
      const Base term = number * factor;
      const auto product = static_cast<double>(term);
      const bool counts = !(number == Base{0} && number_error == 0);
      sum += term;
      error.inherited += counts
                             ? Factor(factor, y.Error(c), options_)
                                   .ErrorOfProduct(static_cast<double>(number),
                                                   number_error, product)
                             : 0;
      error.magnitude += std::abs(product);
      terms += counts ? 1 : 0;
    }
    error.additions += std::max(terms - 1, 0.0);
  }

  void HandDown(size_t i) {
    const Node node = nodes_[i];
    if (node.x == kScaledRow) {
      HandDownScaledRow(rows_.back());
      rows_.pop_back();
      return;
    }
    const size_t at = static_cast<size_t>(inputs_) + i;
    const Base a = derivatives_[at];
    const double a_error = ErrorAt(at);
    const bool reached = a != Base{0} || a_error != 0;
    if (node.x == kDot) {
      if (reached) HandDownDot(rows_.back(), a, a_error);
      rows_.pop_back();
      return;
    }
    if (node.x == kEntry) {
      if (reached) HandDownEntry(at, entries_.back());
      entries_.pop_back();
      entry_values_.pop_back();
      entry_errors_.pop_back();
      return;
    }
    if (!reached || node.x == kSum) return;
    const Errors errors = options_.bounds ? errors_[i] : Errors{0, 0};
    Add(node.x, node.dx, errors.dx, a, a_error);
    Add(node.y, node.dy, errors.dy, a, a_error);
  }

  // Nothing is rounded.
  void HandDownEntry(size_t from, int32_t to) {
    if (to < 0) return;
    const auto at = static_cast<size_t>(to);
    derivatives_[at] += derivatives_[from];
    if (!options_.bounds) return;
    inherited_[at] += inherited_[from];
    magnitudes_[at] += magnitudes_[from];
    terms_[at] += terms_[from];
  }

  void HandDownDot(const Rows& rows, const Base& a, double a_error) {
    if (rows.x.node >= 0)
      WithNumbersOf(rows.y, [&](const auto& y) {
        AddRow(rows.x.node, rows.width, y, a, a_error);
      });
    if (rows.y.node >= 0)
      WithNumbersOf(rows.x, [&](const auto& x) {
        AddRow(rows.y.node, rows.width, x, a, a_error);
      });
  }

  void HandDownScaledRow(const Rows& rows) {
    const Adjoints adjoints = AdjointsFrom(static_cast<size_t>(rows.sums));
    if (rows.x.node >= 0)
      AddRow(rows.x.node, rows.width, adjoints, rows.factor, rows.factor_error);
    if (rows.y.node < 0) return;
    Base sum = 0;
    SumError error;
    WithNumbersOf(rows.x, [&](const auto& numbers) {
      AddDot(adjoints, numbers, rows.width, sum, error);
    });
    const auto factor = static_cast<size_t>(rows.y.node);
    derivatives_[factor] += sum;
    if (!options_.bounds) return;
    inherited_[factor] += error.inherited;
    magnitudes_[factor] += error.magnitude;
    terms_[factor] += error.additions + 1;
  }

  static inline thread_local Tape* current_ = nullptr;

  const Options options_;
  std::vector<Range> ranges_;
  int32_t inputs_ = 0;
  std::vector<Node> nodes_;
  std::vector<Errors> errors_;  // of the partial derivatives of nodes_
  std::vector<Rows> rows_;
  // The entries of rows: their nodes (before AddEntry), values and errors.
  std::vector<int32_t> entries_;
  std::vector<Base> entry_values_;
  std::vector<double> entry_errors_;
  // The derivatives by the inputs, then by nodes_; and for their bounds (as in
  // SumError) what their terms inherit, the sums of the terms' magnitudes, and
  // the numbers of terms.
  std::vector<Base> derivatives_;
  std::vector<double> inherited_, magnitudes_, terms_;
};

template <typename Base>
class Traced {
 public:
  using BaseType = Base;

  Traced() = default;
  Traced(const double& value)  // NOLINT: as a built-in number converts
      : value_(static_cast<Base>(value)) {
    if (const Tape<Base>* tape = Tape<Base>::Current())
      node_ = tape->NodeOf(&value);
  }
  template <BuiltIn Number>
  requires(!std::is_same_v<Number, double>) Traced(Number value)
      : value_(static_cast<Base>(value)) {}  // NOLINT
  static Traced Constant(Base value) {
    Traced number;
    number.value_ = value;
    return number;
  }

  explicit operator float() const { return static_cast<float>(value_); }
  explicit operator double() const { return static_cast<double>(value_); }
  explicit operator long double() const {
    return static_cast<long double>(value_);
  }
  explicit operator int() const {
    return static_cast<int>(static_cast<long double>(value_));
  }

  const Base& value() const { return value_; }
  int32_t node() const { return node_; }
  double Error() const { return error_.Total(); }

  friend Traced operator+(const Traced& x, const Traced& y) {
    if (x.IsZero()) return y;
    if (y.IsZero()) return x;
    return Sum(x, y, x.value_ + y.value_, Base{1});
  }
  friend Traced operator-(const Traced& x, const Traced& y) {
    return Sum(x, y, x.value_ - y.value_, Base{-1});
  }
  friend Traced operator*(const Traced& x, const Traced& y) {
    Traced product = Constant(x.value_ * y.value_);
    double x_error = 0, y_error = 0;
    if (Bounds()) {
      x_error = x.Error();
      y_error = y.Error();
      product.error_.inherited =
          ErrorOfProduct(x.value_, x_error, y.value_, y_error, product.value_);
    }
    product.RecordPair(x, y.value_, y_error, y, x.value_, x_error);
    return product;
  }
  friend Traced operator/(const Traced& x, const Traced& y) {
    Traced quotient = Constant(x.value_ / y.value_);
    const Base reciprocal = Base{1} / y.value_;
    double reciprocal_error = 0, slope_error = 0;
    if (Bounds()) {
      const double x_error = x.Error(), y_error = y.Error();
      const double size = Size(quotient.value_), divisor = Size(y.value_);
      const double least = divisor - Roundoff() * y_error;
      // A divisor near the largest number may be infinite in a program.
      const double whole = divisor * Lost() > 0.5 ? 1 / Roundoff() : 1;
      constexpr double kUnbounded = std::numeric_limits<double>::infinity();
      quotient.error_.inherited =
          least > 0 ? (x_error + size * y_error) / least + whole * size + Lost()
                    : kUnbounded;
      reciprocal_error =
          least > 0 ? y_error / (divisor * least) + whole / divisor + Lost()
                    : kUnbounded;
      slope_error = quotient.error_.inherited / divisor +
                    size * reciprocal_error + size / divisor + Lost();
    }
    quotient.RecordPair(x, reciprocal, reciprocal_error, y,
                        -quotient.value_ * reciprocal, slope_error);
    return quotient;
  }
  Traced operator-() const { return Function(-value_, Error(), Base{-1}, 0); }
  // Mixed operands need overloads of their own, as for Emulated.
  template <BuiltIn Number>
  friend Traced operator+(const Traced& x, Number y) {
    return x + Constant(static_cast<Base>(y));
  }
  template <BuiltIn Number>
  friend Traced operator+(Number x, const Traced& y) {
    return Constant(static_cast<Base>(x)) + y;
  }
  template <BuiltIn Number>
  friend Traced operator-(const Traced& x, Number y) {
    return x - Constant(static_cast<Base>(y));
  }
  template <BuiltIn Number>
  friend Traced operator-(Number x, const Traced& y) {
    return Constant(static_cast<Base>(x)) - y;
  }
  template <BuiltIn Number>
  friend Traced operator*(const Traced& x, Number y) {
    return x * Constant(static_cast<Base>(y));
  }
  template <BuiltIn Number>
  friend Traced operator*(Number x, const Traced& y) {
    return Constant(static_cast<Base>(x)) * y;
  }
  template <BuiltIn Number>
  friend Traced operator/(const Traced& x, Number y) {
    return x / Constant(static_cast<Base>(y));
  }
  template <BuiltIn Number>
  friend Traced operator/(Number x, const Traced& y) {
    return Constant(static_cast<Base>(x)) / y;
  }
  Traced& operator+=(const Traced& x) { return *this = *this + x; }
  Traced& operator-=(const Traced& x) { return *this = *this - x; }
  Traced& operator*=(const Traced& x) { return *this = *this * x; }
  Traced& operator/=(const Traced& x) { return *this = *this / x; }

  // A comparison decides on the values and has no derivative.
  friend bool operator==(const Traced& x, const Traced& y) {
    return x.value_ == y.value_;
  }
  friend auto operator<=>(const Traced& x, const Traced& y) {
    return static_cast<long double>(x.value_) <=>
           static_cast<long double>(y.value_);
  }

  // Returns a function of this number from its value, its error, its derivative
  // and the error of that.
  Traced Function(Base value, double error, Base derivative,
                  double derivative_error) const {
    Traced result = Constant(value);
    if (Bounds()) result.error_.inherited = error;
    if (node_ >= 0)
      result.node_ =
          Tape<Base>::Current()->Record(node_, derivative, derivative_error,
                                        Tape<Base>::kConstant, Base{0}, 0);
    return result;
  }

  // Declares the numbers x [width] a row, for Dot and AddScaledRow.
  static void AsRow(Traced* x, int64_t width) {
    if (std::all_of(x, x + width,
                    [](const Traced& number) { return number.node_ < 0; }))
      return;
    for (int64_t a = 0; a < width; ++a) {
      const double error = x[a].Error();
      x[a].node_ =
          Tape<Base>::Current()->AddEntry(x[a].node_, x[a].value_, error);
      x[a].error_ = {error, 0, 0};
    }
  }

  // Returns sum x_a y_a of numbers or entries of inputs, recorded as one number
  // where both are rows.
  template <typename X, typename Y>
  static Traced Dot(const X* x, const Y* y, int64_t width) {
    const auto x_row = RowOf(x, width), y_row = RowOf(y, width);
    if (!x_row || !y_row) {
      Traced sum;
      for (int64_t a = 0; a < width; ++a) sum += Traced(x[a]) * Traced(y[a]);
      return sum;
    }
    Traced dot;
    dot.node_ = Tape<Base>::Current()->RecordDot(*x_row, *y_row, width,
                                                 dot.value_, dot.error_);
    return dot;
  }

  // Computes sums += factor * row, recorded as one operation where the row is
  // one and the sums have been changed by this function only. They must not be
  // read before they are complete.
  template <typename Number>
  static void AddScaledRow(Traced* sums, const Traced& factor,
                           const Number* row, int64_t width) {
    const auto numbers = RowOf(row, width);
    if (!numbers || !AreSums(sums, width, *Tape<Base>::Current())) {
      for (int64_t c = 0; c < width; ++c) sums[c] += factor * Traced(row[c]);
      return;
    }
    const double factor_error = factor.Error();
    const bool bounds = Bounds();
    for (int64_t c = 0; c < width; ++c) {
      const Base number = ValueOf(row[c]);
      const Base term = factor.value_ * number;
      sums[c].value_ += term;
      if (!bounds) continue;
      SumError& error = sums[c].error_;
      error.inherited += ErrorOfProduct(factor.value_, factor_error, number,
                                        ErrorOf(row[c]), term);
      error.magnitude += Size(term);
      error.additions += 1;
    }
    Tape<Base>::Current()->RecordScaledRow(sums[0].node_, factor.node_,
                                           factor.value_, factor_error,
                                           *numbers, width);
  }

  static bool Bounds() {
    return Tape<Base>::Current() && Tape<Base>::Current()->options().bounds;
  }
  static double Roundoff() { return Tape<Base>::Current()->options().roundoff; }
  // What a product may lose below the smallest normal number, in units of the
  // roundoff.
  static double Lost() {
    return Tape<Base>::Current()->options().smallest_normal;
  }
  static double Size(const Base& x) { return std::abs(static_cast<double>(x)); }

 private:
  static Base ValueOf(const Traced& x) { return x.value_; }
  static Base ValueOf(const double& x) { return static_cast<Base>(x); }
  static double ErrorOf(const Traced& x) { return x.Error(); }
  static double ErrorOf(const double&) { return 0; }
  static double ErrorOfProduct(const Base& x, double x_error, const Base& y,
                               double y_error, const Base& product) {
    return Size(x) * y_error + Size(y) * x_error +
           Roundoff() * x_error * y_error + Size(product) + Lost();
  }

  // Returns the row that these numbers are, if they are one.
  static std::optional<typename Tape<Base>::Row> RowOf(const double* x,
                                                       int64_t) {
    const Tape<Base>* const tape = Tape<Base>::Current();
    if (!tape || !tape->IsInput(x)) return std::nullopt;
    return tape->InputRow(x);
  }
  static std::optional<typename Tape<Base>::Row> RowOf(const Traced* x,
                                                       int64_t width) {
    const Tape<Base>* const tape = Tape<Base>::Current();
    const int32_t first = x[0].node_;
    if (!tape || !tape->IsEntry(first)) return std::nullopt;
    for (int64_t a = 1; a < width; ++a)
      if (x[a].node_ != first + a) return std::nullopt;
    if (!tape->IsEntry(x[width - 1].node_)) return std::nullopt;
    return tape->EntryRow(first);
  }

  bool IsZero() const { return node_ < 0 && value_ == Base{0}; }
  double Magnitude() const {
    return error_.additions > 0 ? error_.magnitude : Size(value_);
  }

  // True if these are consecutive nodes that RecordSums has made; makes them if
  // all are zeros.
  static bool AreSums(Traced* sums, int64_t width, Tape<Base>& tape) {
    if (std::all_of(sums, sums + width,
                    [](const Traced& sum) { return sum.IsZero(); })) {
      const int32_t first = tape.RecordSums(width);
      for (int64_t c = 0; c < width; ++c)
        sums[c].node_ = first + static_cast<int32_t>(c);
      return true;
    }
    for (int64_t c = 0; c < width; ++c)
      if (sums[c].node_ != sums[0].node_ + c || !tape.IsSum(sums[c].node_))
        return false;
    return true;
  }

  static Traced Sum(const Traced& x, const Traced& y, Base value, Base sign) {
    Traced sum = Constant(value);
    if (Bounds())
      sum.error_ = {x.error_.inherited + y.error_.inherited,
                    x.Magnitude() + y.Magnitude(),
                    x.error_.additions + y.error_.additions + 1};
    sum.RecordPair(x, Base{1}, 0, y, sign, 0);
    return sum;
  }

  void RecordPair(const Traced& x, Base dx, double dx_error, const Traced& y,
                  Base dy, double dy_error) {
    if (x.node_ >= 0 || y.node_ >= 0)
      node_ = Tape<Base>::Current()->Record(x.node_, dx, dx_error, y.node_, dy,
                                            dy_error);
  }

  Base value_ = 0;
  int32_t node_ = Tape<Base>::kConstant;
  SumError error_;
};

template <typename Base>
Traced<Base> AsConstant(const Traced<Base>& x) {
  return Traced<Base>::Constant(x.value());
}

template <typename Base>
void AsRow(Traced<Base>* x, int64_t width) {
  Traced<Base>::AsRow(x, width);
}

template <typename Base>
Traced<Base> Divisor(const Traced<Base>& sum) {
  const Tape<Base>* const tape = Tape<Base>::Current();
  return tape && tape->options().detaches_normalisers ? AsConstant(sum) : sum;
}

template <typename Base>
Traced<Base> exp(const Traced<Base>& x) {
  const Base value = exp(x.value());
  double error = 0;
  if (Traced<Base>::Bounds()) {
    const double size = Traced<Base>::Size(value);
    const double u = Traced<Base>::Roundoff();
    const double moved = u * x.Error();
    // A value of zero stays near zero if the number is far below its error.
    const double change =
        moved < 1 ? size * std::expm1(moved)
                  : std::exp(static_cast<double>(x.value()) + moved) - size;
    error = change / u + 3 * size;
    // Programs may take a number near the smallest normal one for zero.
    if (size < 20 * Traced<Base>::Lost()) error += 2 * Traced<Base>::Lost() / u;
  }
  return x.Function(value, error, value, error);
}

template <typename Base>
Traced<Base> log(const Traced<Base>& x) {
  const Base value = log(x.value());
  double error = 0, slope_error = 0;
  if (Traced<Base>::Bounds()) {
    const double size = Traced<Base>::Size(x.value());
    const double relative = x.Error() / size;
    error = 1.01 * relative + 2 * Traced<Base>::Size(value);
    slope_error = (relative + 1) / size;
  }
  return x.Function(value, error, Base{1} / x.value(), slope_error);
}

// Programs compute it from an exponential, or by a quotient of polynomials: off
// by at most 4 units in the last place.
template <typename Base>
Traced<Base> tanh(const Traced<Base>& x) {
  const Base value = tanh(x.value());
  const Base slope = (Base{1} - value) * (Base{1} + value);
  double error = 0, slope_error = 0;
  if (Traced<Base>::Bounds()) {
    const double size = Traced<Base>::Size(value);
    error = ErrorOfTanh(Traced<Base>::Size(x.value()), x.Error(),
                        Traced<Base>::Roundoff()) +
            8 * size;
    slope_error = 2 * size * error + 3 * Traced<Base>::Size(slope);
  }
  return x.Function(value, error, slope, slope_error);
}

// The derivative at zero is taken to be zero.
template <typename Base>
Traced<Base> sqrt(const Traced<Base>& x) {
  const Base root = sqrt(x.value());
  const Base slope = root > Base{0} ? Base{1} / (2 * root) : Base{0};
  double error = 0, slope_error = 0;
  if (Traced<Base>::Bounds() && root > Base{0}) {
    const double size = Traced<Base>::Size(root);
    const double steep = Traced<Base>::Size(slope);
    error = x.Error() * steep * 1.01 + size;
    slope_error = steep * (error / size + 1);
  }
  return x.Function(root, error, slope, slope_error);
}

template <typename Base>
Traced<Base> sin(const Traced<Base>& x) {
  const double error = x.Error() + 1.5;
  return x.Function(sin(x.value()), error, cos(x.value()), error);
}

template <typename Base>
Traced<Base> cos(const Traced<Base>& x) {
  const double error = x.Error() + 1.5;
  return x.Function(cos(x.value()), error, -sin(x.value()), error);
}

template <typename Base>
Traced<Base> abs(const Traced<Base>& x) {
  return x.value() < Base{0} ? -x : x;
}

// Exact, unless a number falls below the smallest normal one.
template <typename Base>
Traced<Base> ldexp(const Traced<Base>& x, int power) {
  const Base value = ldexp(x.value(), power), slope = ldexp(Base{1}, power);
  double error = 0, slope_error = 0;
  if (Traced<Base>::Bounds()) {
    const double lost = Traced<Base>::Lost();
    error = std::ldexp(x.Error(), power) +
            (Traced<Base>::Size(value) < lost ? lost : 0);
    slope_error = Traced<Base>::Size(slope) < lost ? lost : 0;
  }
  return x.Function(value, error, slope, slope_error);
}

template <typename Base>
Traced<Base> frexp(const Traced<Base>& x, int* power) {
  frexp(x.value(), power);
  return ldexp(x, -*power);
}

template <typename Base>
Traced<Base> fma(const Traced<Base>& x, const Traced<Base>& y,
                 const Traced<Base>& z) {
  return x * y + z;
}

template <typename Base>
Traced<Base> hypot(const Traced<Base>& x, const Traced<Base>& y) {
  return sqrt(x * x + y * y);
}

// The nearest integer is constant between two steps.
template <typename Base>
Traced<Base> nearbyint(const Traced<Base>& x) {
  return Traced<Base>::Constant(nearbyint(x.value()));
}

template <typename Base>
int ilogb(const Traced<Base>& x) {
  return ilogb(x.value());
}

template <typename Base>
bool isfinite(const Traced<Base>& x) {
  return isfinite(x.value());
}

}  // namespace subquad

template <typename Base>
inline constexpr auto std::numbers::log2e_v<subquad::Traced<Base>> =
    std::numbers::log2e_v<Base>;
template <typename Base>
inline constexpr auto std::numbers::pi_v<subquad::Traced<Base>> =
    std::numbers::pi_v<Base>;

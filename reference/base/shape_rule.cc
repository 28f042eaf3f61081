#include "reference/base/shape_rule.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace subquad {
namespace {

// Sizes come from outside. Products saturate at this value instead of wrapping
// around, and then match no shape.
constexpr int64_t kLargest = int64_t{1} << 62;

int64_t Plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? -kLargest : kLargest;
  return std::clamp(sum, -kLargest, kLargest);
}

int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    return (a < 0) == (b < 0) ? kLargest : -kLargest;
  return std::clamp(product, -kLargest, kLargest);
}

bool IsDigit(char letter) {
  return std::isdigit(static_cast<unsigned char>(letter));
}

// Returns the value of a symbol or a number; nothing if it has none.
std::optional<int64_t> ValueOf(const std::string& word, const Dims& dims) {
  if (IsDigit(word.front())) return std::stoll(word);
  const auto it = dims.find(word);
  if (it == dims.end()) return std::nullopt;
  return it->second;
}

}  // namespace

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count = Times(count, extent);
  return count;
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Extent::Extent(const std::string& expression) {
  size_t at = expression.starts_with('-') ? 1 : 0;
  int64_t sign = at == 1 ? -1 : 1;
  while (at < expression.size()) {
    Term term{sign, expression.compare(at, 5, "ceil(") == 0};
    if (term.rounds_up) at += 5;
    bool divides = false;
    while (true) {
      size_t end = at;
      while (end < expression.size() &&
             (std::isalnum(static_cast<unsigned char>(expression[end])) ||
              expression[end] == '_'))
        ++end;
      if (end == at) throw std::logic_error("bad extent '" + expression + "'");
      const std::string word = expression.substr(at, end - at);
      if (divides)
        term.divisors.push_back(word);
      else if (IsDigit(word.front()))
        term.factor *= std::stoll(word);
      else
        term.symbols.push_back(word);
      at = end;
      if (at == expression.size() ||
          (expression[at] != '*' && expression[at] != '/'))
        break;
      divides = expression[at] == '/';
      ++at;
    }
    if (term.rounds_up) {
      if (at == expression.size() || expression[at] != ')')
        throw std::logic_error("bad extent '" + expression + "'");
      ++at;
    }
    terms_.push_back(std::move(term));
    if (at < expression.size()) {
      if (expression[at] != '+' && expression[at] != '-')
        throw std::logic_error("bad extent '" + expression + "'");
      sign = expression[at] == '+' ? 1 : -1;
      ++at;
    }
  }
}

std::vector<std::string> Extent::Symbols() const {
  std::vector<std::string> symbols;
  for (const Term& term : terms_) {
    symbols.insert(symbols.end(), term.symbols.begin(), term.symbols.end());
    for (const std::string& divisor : term.divisors)
      if (!IsDigit(divisor.front())) symbols.push_back(divisor);
  }
  return symbols;
}

std::optional<int64_t> Extent::Evaluate(const Dims& dims) const {
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    for (const std::string& symbol : term.symbols) {
      auto it = dims.find(symbol);
      if (it == dims.end()) return std::nullopt;
      product = Times(product, it->second);
    }
    for (const std::string& divisor : term.divisors) {
      const auto value = ValueOf(divisor, dims);
      if (!value || *value < 1) return std::nullopt;
      const bool has_rest = product % *value != 0;
      product = product / *value + (term.rounds_up && has_rest);
    }
    sum = Plus(sum, product);
  }
  return sum;
}

Extent::Solution Extent::Solve(const Dims& dims, int64_t size) const {
  std::string unknown;
  int64_t coefficient = 0, rest = 0;
  for (const Term& term : terms_) {
    if (!term.divisors.empty()) return {};  // sizes share a quotient
    int64_t product = term.factor;
    bool has_unknown = false;
    for (const std::string& symbol : term.symbols) {
      auto it = dims.find(symbol);
      if (it != dims.end()) {
        product = Times(product, it->second);
        continue;
      }
      if (has_unknown || (!unknown.empty() && unknown != symbol)) return {};
      unknown = symbol;
      has_unknown = true;
    }
    int64_t& part = has_unknown ? coefficient : rest;
    part = Plus(part, product);
  }
  if (unknown.empty() || coefficient == 0) return {};
  const int64_t left = Plus(size, -rest);
  if (left % coefficient != 0) return {unknown, std::nullopt};
  return {unknown, left / coefficient};
}

}  // namespace subquad

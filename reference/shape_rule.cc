#include "reference/shape_rule.h"

#include <cctype>
#include <stdexcept>

namespace subquad {

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Extent::Extent(const std::string& expression) : expression_(expression) {
  size_t at = 0;
  int64_t sign = 1;
  while (at < expression.size()) {
    Term term{sign, {}};
    while (true) {
      size_t end = at;
      while (end < expression.size() &&
             (std::isalnum(static_cast<unsigned char>(expression[end])) ||
              expression[end] == '_'))
        ++end;
      if (end == at) throw std::logic_error("bad extent '" + expression + "'");
      const std::string word = expression.substr(at, end - at);
      if (std::isdigit(static_cast<unsigned char>(word[0])))
        term.factor *= std::stoll(word);
      else
        term.symbols.push_back(word);
      at = end;
      if (at < expression.size() && expression[at] == '*')
        ++at;
      else
        break;
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

std::optional<int64_t> Extent::Evaluate(const Dims& dims) const {
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    for (const std::string& symbol : term.symbols) {
      auto found = dims.find(symbol);
      if (found == dims.end()) return std::nullopt;
      product *= found->second;
    }
    sum += product;
  }
  return sum;
}

Extent::Solution Extent::Solve(const Dims& dims, int64_t size) const {
  std::string unknown;
  int64_t coefficient = 0, rest = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    bool has_unknown = false;
    for (const std::string& symbol : term.symbols) {
      auto found = dims.find(symbol);
      if (found != dims.end()) {
        product *= found->second;
        continue;
      }
      if (has_unknown || (!unknown.empty() && unknown != symbol)) return {};
      unknown = symbol;
      has_unknown = true;
    }
    (has_unknown ? coefficient : rest) += product;
  }
  if (unknown.empty() || coefficient == 0) return {};
  if ((size - rest) % coefficient != 0) return {unknown, std::nullopt};
  return {unknown, (size - rest) / coefficient};
}

}  // namespace subquad

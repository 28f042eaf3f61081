#include "harness/base/npy_header.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

// Shortens text from outside to one line of a message.
std::string OneLine(std::string_view text, size_t limit = 60) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string line;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      line += c;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text.size() > limit ? line + "..." : line;
}

// Parses the part of Python's literals that NumPy writes: a dict of the three
// known keys, a string, a bool and a tuple of plain decimal integers. The
// message about anything else names what was found.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name)
      : text_(text), name_(name) {}

  NpyHeaderFields Parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<int64_t>> shape;

    Expect('{', "a dict in braces");
    while (!Accept('}')) {
      const std::string key = ParseString("a key in quotes or '}'");
      Expect(':', "':' after the key " + Quoted(key));
      if (key == "descr") {
        RefuseSecond(descr.has_value(), key);
        descr = ParseDescr();
      } else if (key == "fortran_order") {
        RefuseSecond(fortran_order.has_value(), key);
        fortran_order = ParseBool();
      } else if (key == "shape") {
        RefuseSecond(shape.has_value(), key);
        shape = ParseShape();
      } else {
        throw InvalidInput(name_,
                           "the header keys descr, fortran_order and shape",
                           "the key " + Quoted(key));
      }
      if (Accept(',')) continue;
      Expect('}', "',' or '}'");
      break;
    }
    SkipSpace();
    if (position_ != text_.size()) Fail("nothing after the dict");

    if (!descr) RefuseMissing("descr");
    if (!fortran_order) RefuseMissing("fortran_order");
    if (!shape) RefuseMissing("shape");
    return {std::move(*descr), *fortran_order, std::move(*shape)};
  }

 private:
  [[noreturn]] void Fail(const std::string& expected) const {
    throw InvalidInput(name_, "a NumPy header with " + expected,
                       position_ == text_.size()
                           ? "its end"
                           : Quoted(text_.substr(position_)) + " at byte " +
                                 std::to_string(position_));
  }

  [[noreturn]] void RefuseMissing(const std::string& key) const {
    throw InvalidInput(name_, "a NumPy header with the key '" + key + "'",
                       "none");
  }

  void RefuseSecond(bool seen, const std::string& key) const {
    if (seen) {
      throw InvalidInput(
          name_, "a NumPy header with the key '" + key + "' once", "it twice");
    }
  }

  void SkipSpace() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) !=
               std::string_view::npos) {
      ++position_;
    }
  }

  bool Peek(char c) {
    SkipSpace();
    return position_ < text_.size() && text_[position_] == c;
  }

  bool Accept(char c) {
    if (!Peek(c)) return false;
    ++position_;
    return true;
  }

  void Expect(char c, const std::string& what) {
    if (!Accept(c)) Fail(what);
  }

  // Accepts `word` unless it is only the beginning of a longer one.
  bool AcceptWord(std::string_view word) {
    SkipSpace();
    if (!text_.substr(position_).starts_with(word)) return false;
    const size_t end = position_ + word.size();
    if (end < text_.size() && IsWordByte(text_[end])) return false;
    position_ = end;
    return true;
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsWordByte(char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '_';
  }

  // Parses a string without escapes, which no key and no accepted dtype has.
  std::string ParseString(const std::string& expected) {
    SkipSpace();
    if (!Peek('\'') && !Peek('"')) Fail(expected);
    const size_t begin = position_ + 1;
    const size_t end = text_.find(text_[position_], begin);
    if (end == std::string_view::npos) Fail("a closing quote");
    const std::string_view content = text_.substr(begin, end - begin);
    for (const char c : content) {
      if (c < 0x20 || c > 0x7e || c == '\\') Fail("plain text in quotes");
    }
    position_ = end + 1;
    return std::string(content);
  }

  std::string ParseDescr() {
    if (Peek('[') || Peek('(')) {
      throw InvalidInput(name_, "dtype '<f4' or '<f8'", "a structured dtype");
    }
    return ParseString("a dtype in quotes");
  }

  bool ParseBool() {
    if (AcceptWord("True")) return true;
    if (AcceptWord("False")) return false;
    Fail("True or False for fortran_order");
  }

  std::vector<int64_t> ParseShape() {
    std::vector<int64_t> shape;
    Expect('(', "a tuple in parentheses for shape");
    bool comma = true;
    while (!Accept(')')) {
      if (!comma) Fail("',' or ')' in shape");
      shape.push_back(ParseDimension());
      comma = Accept(',');
    }
    // In Python, (3) is a number and (3,) a tuple.
    if (shape.size() == 1 && !comma) Fail("a tuple for shape, as in (3,)");
    return shape;
  }

  int64_t ParseDimension() {
    SkipSpace();
    const size_t begin = position_;
    size_t end = begin;
    if (end < text_.size() && text_[end] == '-') ++end;
    const size_t digits = end;
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    // Python has no leading zeros; a letter or point follows in 3L, 1e6, 2.5.
    if (end == digits || (text_[digits] == '0' && end - digits > 1) ||
        (end < text_.size() && (IsWordByte(text_[end]) || text_[end] == '.'))) {
      Fail("decimal integers in shape");
    }
    const std::string_view number = text_.substr(begin, end - begin);
    int64_t value = 0;
    const auto [stop, error] =
        std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc()) {
      throw InvalidInput(name_, "dimensions that fit into 64 bits",
                         OneLine(number));
    }
    position_ = end;
    return value;
  }

  std::string_view text_;
  std::string name_;
  size_t position_ = 0;
};

}  // namespace

std::string Quoted(std::string_view text) { return "'" + OneLine(text) + "'"; }

NpyHeaderFields ParseNpyHeader(std::string_view text, const std::string& name) {
  return HeaderParser(text, name).Parse();
}

std::string NpyDtypeText(const std::string& descr) {
  const std::string quoted = Quoted(descr);
  if (descr.starts_with('>')) return quoted + " (big-endian)";
  const std::string_view kind =
      descr.size() > 1 &&
              std::string_view("<|=").find(descr[0]) != std::string_view::npos
          ? std::string_view(descr).substr(1)
          : std::string_view(descr);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"f2", "float16"},
      {"f", "another float"},
      {"b", "bool"},
      {"i", "integers"},
      {"u", "unsigned integers"},
      {"c", "complex"},
      {"O", "Python objects"},
      {"S", "bytes"},
      {"a", "bytes"},
      {"U", "text"},
      {"M", "dates"},
      {"m", "time spans"},
      {"V", "raw bytes"}};
  for (const auto& [prefix, words] : kNames) {
    if (kind.starts_with(prefix)) {
      return quoted + " (" + std::string(words) + ")";
    }
  }
  return quoted;
}

}  // namespace subquad

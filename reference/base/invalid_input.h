// The one exception for invalid input. It names the tensor or parameter, what
// was expected and what was found. Case folders, sweeps and library calls throw
// it; the command line turns it into one line and exit status 2.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace subquad {

class InvalidInput : public std::runtime_error {
 public:
  // Makes the message "SUBJECT: expected EXPECTED, found FOUND".
  InvalidInput(const std::string& subject, const std::string& expected,
               const std::string& found)
      : std::runtime_error(
            OneLine(subject + ": expected " + expected + ", found " + found)) {}

  // Takes a whole sentence, for problems that are not a mismatch of two values.
  explicit InvalidInput(const std::string& sentence)
      : std::runtime_error(OneLine(sentence)) {}

  // Returns the same problem with its context in front: "CONTEXT: ...".
  InvalidInput In(const std::string& context) const {
    return InvalidInput(context + ": " + what());
  }

 private:
  // Names and values come from outside, so the message is cut to one line of
  // limited length and its control characters are escaped.
  static std::string OneLine(const std::string& text) {
    constexpr size_t kLongest = 2000;
    std::string line;
    for (size_t i = 0; i < text.size() && line.size() < kLongest; ++i) {
      const unsigned char c = static_cast<unsigned char>(text[i]);
      if (c >= 0x20 && c != 0x7F) {
        line += text[i];
        continue;
      }
      constexpr char kDigits[] = "0123456789abcdef";
      line += {'\\', 'x', kDigits[c >> 4], kDigits[c & 15]};
    }
    return line.size() < kLongest ? line : line + "..";
  }
};

// Returns the message for a name that is not one of `names`: "SUBJECT: expected
// one of A, B, found 'X' (did you mean 'A'?)". With many names the suggestion
// comes before the list. For a name of other libraries, the suggestion says
// what to do here (field_words.h).
InvalidInput UnknownName(const std::string& subject,
                         const std::vector<std::string>& names,
                         const std::string& found);

}  // namespace subquad

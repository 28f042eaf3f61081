// The one exception for input that is not valid: it names the thing, what was
// expected and what was found. Every way in (case folder, sweep, library call)
// throws it, and the command line turns it into one line and exit status 2.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace subquad {

class InvalidInput : public std::runtime_error {
 public:
  // Reads "SUBJECT: expected EXPECTED, found FOUND".
  InvalidInput(const std::string& subject, const std::string& expected,
               const std::string& found)
      : std::runtime_error(subject + ": expected " + expected + ", found " +
                           found) {}

  // For problems that are not a mismatch of two things, in one sentence.
  explicit InvalidInput(const std::string& sentence)
      : std::runtime_error(sentence) {}

  // The same problem seen from further out: "CONTEXT: ...".
  InvalidInput In(const std::string& context) const {
    return InvalidInput(context + ": " + what());
  }
};

}  // namespace subquad

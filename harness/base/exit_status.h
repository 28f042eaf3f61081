// Exit statuses of the program.
#pragma once

namespace subquad {

enum ExitStatus {
  kFine = 0,
  kCheckFailed = 1,
  kNotValid = 2,
  kInterrupted = 130
};

}  // namespace subquad

// The header of a .npy file as text: a Python dict literal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace subquad {

struct NpyHeaderFields {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Throws InvalidInput, which begins with `name`, for anything but a dict of the
// three keys of numpy.lib.format with values as NumPy writes them.
NpyHeaderFields ParseNpyHeader(std::string_view text, const std::string& name);

// A dtype in words, for people who did not know that they had saved it.
std::string NpyDtypeText(const std::string& descr);

// Bytes from outside in quotes, fit for one line of a message.
std::string Quoted(std::string_view text);

}  // namespace subquad

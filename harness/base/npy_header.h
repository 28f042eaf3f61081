// Parses the header of a .npy file, a Python dict literal.
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

// Parses the header. Throws InvalidInput, which begins with `name`, for
// anything but a dict with the three keys of numpy.lib.format and values as
// NumPy writes them.
NpyHeaderFields ParseNpyHeader(std::string_view text, const std::string& name);

// Describes a dtype in words, for messages about files of a wrong type.
std::string NpyDtypeText(const std::string& descr);

// Quotes bytes from outside so that they fit into one line of a message.
std::string Quoted(std::string_view text);

}  // namespace subquad

// Takes tensors from a case folder instead of generating them. A tensor is used
// if both the folder and the problem have its name, even if the folder is for
// another operator: the queries of a softmax_attention case serve
// linear_attention too. Rows (tokens, pixels) are cropped or tiled to the
// requested length; tensors indexed by offset (biases, weights) stay centred on
// offset 0 and repeat their outermost values; widths have to match. The
// folder's parameters and outputs are ignored.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case_folder.h"

namespace subquad {

// Returns the path as in an id: normalised, and relative if the folder is below
// the current one or in the program's data, where it can be found from
// anywhere. Throws InvalidInput for a path that an id cannot contain.
std::string InputSourceName(const std::string& path);

// Tells whether a folder of that name exists.
bool InputSourceExists(const std::string& name);

// Returns the folder, which is read once per process. Throws InvalidInput.
std::shared_ptr<const CaseFolder> FindInputSource(const std::string& path);

// Describes how the folder's tensors were fitted to the problem.
struct SourceFit {
  int64_t rows = 0;    // queries of the folder: tokens or pixels
  std::string fitted;  // "as is", "cropped", "tiled" or "cropped and tiled"
  std::string
      offsets;  // "as is", "cropped" or "extended"; empty without such tensors
  std::vector<std::string> taken, generated;  // inputs of the problem
};

// Throws InvalidInput if the folder has none of the problem's inputs, or one
// that does not fit.
SourceFit FitSource(const CaseFolder& folder, const Problem& problem);

// Returns problem.inputs[index] with the folder's values, not rounded; nothing
// if the folder has no tensor of this name. Throws InvalidInput if it does not
// fit.
std::optional<Tensor> TensorFromSource(const CaseFolder& folder,
                                       const Problem& problem, size_t index);

}  // namespace subquad

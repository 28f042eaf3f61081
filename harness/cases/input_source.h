// Tensors of a case folder in place of generated ones: those that both the
// folder and the problem name, whatever operator the folder is for. The queries
// of a softmax_attention case feed linear_attention too. Rows (tokens, pixels)
// are cropped or tiled to the length asked for; tensors by offset stay centred
// on offset 0 and repeat their outermost values; widths have to match. Nothing
// else of the folder is used, neither its parameters nor its answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case_folder.h"

namespace subquad {

// The path as in an id: normalised, and relative if the folder is below the
// current one or in the program's data, where it is found from anywhere. Throws
// InvalidInput for a path that an id cannot contain.
std::string InputSourceName(const std::string& path);

// Whether a folder of that name exists.
bool InputSourceExists(const std::string& name);

// The folder, read once in a process. Throws InvalidInput.
std::shared_ptr<const CaseFolder> FindInputSource(const std::string& path);

// How the folder's tensors were made to fit.
struct SourceFit {
  int64_t rows = 0;    // queries of the folder: tokens or pixels
  std::string fitted;  // "as is", "cropped", "tiled" or "cropped and tiled"
  std::string
      offsets;  // "as is", "cropped" or "extended"; empty without such tensors
  std::vector<std::string> taken, generated;  // inputs of the problem
};

// Throws InvalidInput where the folder has no input of the problem, or one that
// does not fit.
SourceFit FitSource(const CaseFolder& folder, const Problem& problem);

// problem.inputs[index] with the folder's numbers, not rounded; nothing where
// the folder has no tensor of this name. Throws InvalidInput where it does not
// fit.
std::optional<Tensor> TensorFromSource(const CaseFolder& folder,
                                       const Problem& problem, size_t index);

}  // namespace subquad

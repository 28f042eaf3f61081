// Tensors of a case folder in place of generated ones. Those are taken that the
// folder and the problem both name, whatever operator the folder is about: the
// queries of a softmax_attention case feed linear_attention too. Rows (tokens,
// pixels) are cropped to the first ones or tiled to the length asked for,
// tensors by offset stay centred on offset 0 and repeat their last values
// outwards; widths have to fit. Nothing else of the folder is used, neither its
// parameters nor its answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case_folder.h"

namespace subquad {

// The path as an id says it: plain, and relative where the folder lies under
// the current one or in the source tree, from whose root it is found wherever
// the program is run. Throws InvalidInput for a path that an id cannot hold.
std::string InputSourceName(const std::string& path);

// Whether there is a folder of that name.
bool InputSourceExists(const std::string& name);

// The folder, read once in a process. Throws InvalidInput.
std::shared_ptr<const CaseFolder> FindInputSource(const std::string& path);

// Tokens or pixels (queries, where queries and keys differ in number).
int64_t RowsOf(const Problem& problem);

// What became of the folder's tensors.
struct SourceFit {
  int64_t rows = 0;    // of the folder
  std::string fitted;  // "as is", "cropped", "tiled" or "cropped and tiled"
  std::string
      offsets;  // "as is", "cropped" or "extended"; empty: no such tensor
  std::vector<std::string> taken, generated;  // inputs of the problem
};

// Throws InvalidInput where no input is in the folder, or one does not fit.
SourceFit FitSource(const CaseFolder& folder, const Problem& problem);

// problem.inputs[index] with the folder's numbers, not rounded; nothing when
// the folder has no tensor of this name. Throws InvalidInput where it does not
// fit.
std::optional<Tensor> TensorFromSource(const CaseFolder& folder,
                                       const Problem& problem, size_t index);

}  // namespace subquad

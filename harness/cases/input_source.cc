#include "harness/cases/input_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "harness/base/data_folder.h"
#include "harness/cases/hard_inputs.h"
#include "reference/base/image.h"
#include "reference/base/operator.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

// Maps the elements along one axis to those of the folder's tensor.
struct AxisFit {
  enum class Kind { kWidth, kRows, kOffsets } kind = Kind::kWidth;
  std::vector<int64_t> from;
  int64_t source_extent = 1;
  bool cropped = false, repeated = false;
};

int64_t ExtentOf(const std::string& expression, const Problem& problem) {
  return Extent(expression).Evaluate(problem.dims).value();
}

// Tells whether an extent counts tokens or pixels, which may be cropped or
// tiled.
bool CountsRows(const std::string& expression, const Problem& problem) {
  const std::vector<std::string> symbols = Extent(expression).Symbols();
  return !symbols.empty() &&
         std::ranges::all_of(symbols, [&](const std::string& symbol) {
           return std::ranges::count(problem.length_axes, symbol) > 0;
         });
}

// Returns the offset of the first entry of an axis; nothing if the axis does
// not run over offsets.
std::optional<int64_t> FirstOffset(const TensorRule& rule, size_t axis,
                                   const Problem& problem) {
  for (const OffsetAxis& offset_axis : rule.offset_axes)
    if (offset_axis.axis == static_cast<int>(axis))
      return ExtentOf(offset_axis.first, problem);
  return {};
}

// Fits an axis of offsets: entries keep their offsets, and the outermost values
// are repeated beyond them.
AxisFit FitOffsets(const TensorRule& rule, size_t axis, const Problem& problem,
                   const TensorRule& source_rule, const Problem& source) {
  const std::string &own = rule.shape[axis], &theirs = source_rule.shape[axis];
  const int64_t extent = ExtentOf(own, problem);
  const int64_t source_extent = ExtentOf(theirs, source);
  AxisFit fit{AxisFit::Kind::kOffsets, {}, source_extent};
  const auto first = FirstOffset(rule, axis, problem);
  const auto source_first = FirstOffset(source_rule, axis, source);
  const bool known = first && source_first;
  if (!known && (own != theirs || extent != source_extent))
    throw InvalidInput(rule.name, own + " = " + std::to_string(extent),
                       theirs + " = " + std::to_string(source_extent));
  const int64_t shift = known ? *first - *source_first : 0;
  for (int64_t t = 0; t < extent; ++t) {
    fit.from.push_back(std::clamp<int64_t>(t + shift, 0, source_extent - 1));
    fit.repeated = fit.repeated || fit.from.back() != t + shift;
  }
  fit.cropped = shift > 0 || shift + extent < source_extent;
  return fit;
}

// Fits an axis of pixels: the image is cropped or tiled, so that pixels keep
// their neighbours.
AxisFit FitPixels(const Problem& problem, const Problem& source) {
  const int64_t height = problem.Dim("height"), width = problem.Dim("width");
  const int64_t own_height = source.Dim("height");
  const int64_t own_width = source.Dim("width");
  AxisFit fit{AxisFit::Kind::kRows, {}, own_height * own_width};
  for (int64_t r = 0; r < height; ++r)
    for (int64_t c = 0; c < width; ++c)
      fit.from.push_back(r % own_height * own_width + c % own_width);
  fit.cropped = height < own_height || width < own_width;
  fit.repeated = height > own_height || width > own_width;
  return fit;
}

AxisFit FitAxis(const TensorRule& rule, size_t axis, const Problem& problem,
                const TensorRule& source_rule, const Problem& source) {
  const std::string &own = rule.shape[axis], &theirs = source_rule.shape[axis];
  if (rule.RunsOverOffsets(axis))
    return FitOffsets(rule, axis, problem, source_rule, source);
  const int64_t extent = ExtentOf(own, problem);
  const int64_t source_extent = ExtentOf(theirs, source);
  const bool rows = CountsRows(own, problem);
  if (rows && own == kPixels && theirs == kPixels)
    return FitPixels(problem, source);
  if (!rows && extent != source_extent)
    throw InvalidInput(rule.name, own + " = " + std::to_string(extent),
                       theirs + " = " + std::to_string(source_extent));
  AxisFit fit{rows ? AxisFit::Kind::kRows : AxisFit::Kind::kWidth,
              {},
              source_extent,
              extent<source_extent, extent>
                  source_extent};
  for (int64_t i = 0; i < extent; ++i) fit.from.push_back(i % source_extent);
  return fit;
}

struct TensorFit {
  std::vector<AxisFit> axes;
  std::vector<int64_t> slices;  // of the folder's tensor, one for each of ours
};

TensorFit FitHeads(const Problem& problem, size_t index, const Problem& source,
                   size_t source_index) {
  const TensorRule& rule = problem.inputs[index];
  const Slices slices = problem.InputSlices(index);
  const Slices theirs = source.InputSlices(source_index);
  // Only tensors of parameters may be shared by all heads.
  const bool shared = theirs.count() == 1 && rule.role == Role::kParameter;
  if (!shared && slices.count() > theirs.count())
    throw InvalidInput(rule.name, fmt::format("{} heads", slices.count()),
                       fmt::format("{}", theirs.count()));
  if (theirs.count() > 1 && slices.count() == 1 && problem.heads > 1)
    throw InvalidInput(rule.name, "one for all heads", "one for each head");
  TensorFit fit;
  for (int64_t slice = 0; slice < slices.count(); ++slice)
    fit.slices.push_back(shared ? 0 : slice);
  return fit;
}

TensorFit FitTensor(const CaseFolder& folder, const Problem& problem,
                    size_t index, size_t source_index) {
  const TensorRule& rule = problem.inputs[index];
  const TensorRule& source_rule = folder.problem.inputs[source_index];
  try {
    if (rule.shape.size() != source_rule.shape.size())
      throw InvalidInput(rule.name,
                         fmt::format("{} dimensions", rule.shape.size()),
                         fmt::format("{}", source_rule.shape.size()));
    TensorFit fit = FitHeads(problem, index, folder.problem, source_index);
    for (size_t axis = 0; axis < rule.shape.size(); ++axis)
      fit.axes.push_back(
          FitAxis(rule, axis, problem, source_rule, folder.problem));
    CheckNumbersOf(rule, folder.inputs.tensors[source_index]);
    return fit;
  } catch (const InvalidInput& error) {
    throw error.In("input " + folder.name);
  }
}

// Returns the place from which a folder is read. A relative path that does not
// exist in the current folder is looked up in the program's data, so that
// reports/inputs is found from anywhere.
fs::path PlaceOf(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::path(path).is_absolute() || fs::exists(path, error))
    return path;
  const fs::path in_data = DataFolder() / path;
  return fs::is_directory(in_data, error) ? in_data : fs::path(path);
}

// Returns the path relative to the program's data if it is inside, since links
// in a build folder lead to the source tree.
fs::path RelativeToData(const fs::path& path) {
  std::error_code error;
  const fs::path reports = fs::canonical(DataFolder() / "reports", error);
  if (error) return {};
  const fs::path real = fs::canonical(path, error);
  return error ? fs::path() : "reports" / real.lexically_relative(reports);
}

std::optional<size_t> IndexIn(const CaseFolder& folder,
                              const std::string& name) {
  if (!folder.problem.HasInput(name)) return {};
  return static_cast<size_t>(folder.problem.InputIndex(name));
}

}  // namespace

std::string InputSourceName(const std::string& path) {
  const bool plain = std::ranges::all_of(path, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != ',';
  });
  if (path.empty() || !plain)
    throw InvalidInput("input", "a path without commas", "'" + path + "'");
  std::error_code error;
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  // The path stays absolute if its name in the data refers to another folder
  // here.
  const auto is_found_by = [&](const fs::path& inside) {
    return fs::equivalent(PlaceOf(inside.string()), name, error);
  };
  if (name.is_absolute()) {
    const fs::path here = fs::current_path(error);
    const bool known = !error;
    const fs::path from_here = name.lexically_relative(here),
                   from_data = RelativeToData(name);
    const auto inside = [](const fs::path& candidate) {
      return !candidate.empty() && std::ranges::count(candidate, "..") == 0;
    };
    if (known && inside(from_here))
      name = from_here;
    else if (inside(from_data) && is_found_by(from_data))
      name = from_data;
  }
  const std::string text = name.string();
  return IsHardInput(text) ? "./" + text : text;
}

bool InputSourceExists(const std::string& name) {
  std::error_code error;
  return fs::is_directory(PlaceOf(name), error);
}

std::shared_ptr<const CaseFolder> FindInputSource(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CaseFolder>> folders;
  const std::lock_guard lock(mutex);
  // Keyed by absolute path, since the current folder may change.
  std::shared_ptr<const CaseFolder>& folder =
      folders[fs::absolute(PlaceOf(path)).string()];
  if (!folder) {
    if (!InputSourceExists(path)) {
      std::vector<std::string> names;
      for (const HardInput& kind : HardInputs()) names.emplace_back(kind.name);
      throw UnknownName("input (a case folder or a kind of values)", names,
                        path);
    }
    folder = std::make_shared<CaseFolder>(ReadCaseFolder(PlaceOf(path)));
  }
  return folder;
}

SourceFit FitSource(const CaseFolder& folder, const Problem& problem) {
  SourceFit result;
  result.rows = folder.problem.queries;
  bool cropped = false, tiled = false, by_offset = false;
  bool narrower = false, wider = false;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const std::string& name = problem.inputs[i].name;
    const auto source_index = IndexIn(folder, name);
    (source_index ? result.taken : result.generated).push_back(name);
    if (!source_index) continue;
    for (const AxisFit& axis :
         FitTensor(folder, problem, i, *source_index).axes) {
      const bool rows = axis.kind == AxisFit::Kind::kRows;
      const bool offsets = axis.kind == AxisFit::Kind::kOffsets;
      cropped = cropped || (rows && axis.cropped);
      tiled = tiled || (rows && axis.repeated);
      by_offset = by_offset || offsets;
      narrower = narrower || (offsets && axis.cropped);
      wider = wider || (offsets && axis.repeated);
    }
  }
  if (result.taken.empty()) {
    std::string own, theirs;
    for (const TensorRule& rule : problem.inputs)
      own += (own.empty() ? "" : ", ") + rule.name;
    for (const TensorRule& rule : folder.problem.inputs)
      theirs += (theirs.empty() ? "" : ", ") + rule.name;
    throw InvalidInput("input " + folder.name,
                       fmt::format("at least one of the tensors {} of {}", own,
                                   problem.op->description().id),
                       theirs);
  }
  result.fitted = cropped && tiled ? "cropped and tiled"
                  : cropped        ? "cropped"
                  : tiled          ? "tiled"
                                   : "as is";
  if (by_offset)
    result.offsets = wider ? "extended" : narrower ? "cropped" : "as is";
  return result;
}

std::optional<Tensor> TensorFromSource(const CaseFolder& folder,
                                       const Problem& problem, size_t index) {
  const auto source_index = IndexIn(folder, problem.inputs[index].name);
  if (!source_index) return {};
  const Tensor& source = folder.inputs.tensors[*source_index];
  TensorFit fit = FitTensor(folder, problem, index, *source_index);
  fit.axes.resize(3, {AxisFit::Kind::kWidth, {0}, 1});
  const auto& [first, second, third] =
      std::tie(fit.axes[0], fit.axes[1], fit.axes[2]);
  Tensor tensor;
  tensor.name = source.name;
  tensor.shape = problem.InputShape(index);
  for (int64_t slice : fit.slices) {
    const double* values = source.Slice(slice);
    for (int64_t i : first.from)
      for (int64_t j : second.from)
        for (int64_t k : third.from)
          tensor.values.push_back(
              values[(i * second.source_extent + j) * third.source_extent + k]);
  }
  tensor.slices = problem.InputSlices(index);
  return tensor;
}

}  // namespace subquad

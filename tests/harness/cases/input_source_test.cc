// Tensors of a case folder instead of generated ones: every value is at the
// right place for any requested sizes.
#include "harness/cases/input_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "harness/base/npy.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/registry/registry.h"
#include "harness/results/result_file.h"
#include "tests/places.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

const std::string kInputs = std::string(kSourceFolder) + "/reports/inputs/";

Case CaseFor(const std::string& id) { return MakeCase(ParseCaseId(id)); }

Case Attention(const std::string& op, const std::string& rest,
               const std::string& folder = "mpnet-layer0") {
  return CaseFor(op + ":" + rest + (rest.empty() ? "" : ",") +
                 "scalar=float64,input=" + kInputs + folder);
}

struct Made {
  explicit Made(const Case& test_case)
      : problem(ProblemOf(test_case)),
        inputs(GenerateInputs(test_case, problem)),
        fit(FitSource(*test_case.source, problem)) {}
  const Problem problem;
  const Inputs inputs;
  const SourceFit fit;
};

TEST(InputSource, KeepsTheFoldersSizes) {
  const Case test_case = Attention("softmax_attention", "");
  const Made made(test_case);
  EXPECT_EQ(test_case.Tokens(), 512);
  EXPECT_EQ(test_case.leading.heads, 4);
  EXPECT_TRUE(test_case.leading.per_head);
  EXPECT_EQ(test_case.with, std::vector<std::string>{"bias"});
  EXPECT_EQ(made.fit.fitted, "as is");
  EXPECT_EQ(made.fit.offsets, "as is");
  EXPECT_TRUE(made.fit.generated.empty());
  for (const Tensor& tensor : test_case.source->inputs.tensors) {
    EXPECT_EQ(made.inputs[tensor.name].shape, tensor.shape);
    EXPECT_EQ(made.inputs[tensor.name].slices.count(), tensor.slices.count());
    EXPECT_EQ(made.inputs[tensor.name].values, tensor.values);
  }
  EXPECT_EQ(Attention("softmax_attention", "", "minilm-layer3").sizes.at("d"),
            32);
}

// Rows are repeated from the first on; the bias of an offset stays with its
// offset, and the last one is used for all offsets beyond it.
TEST(InputSource, RowsAndOffsets) {
  struct Row {
    int64_t n_q, n_k;
    const char *fitted, *offsets;
  };
  for (const Row& row :
       {Row{100, 100, "cropped", "cropped"}, Row{1, 1, "cropped", "cropped"},
        Row{1100, 1100, "tiled", "extended"},
        Row{513, 513, "tiled", "extended"}, Row{60, 512, "cropped", "cropped"},
        Row{512, 60, "cropped", "cropped"},
        Row{100, 700, "cropped and tiled", "extended"},
        Row{700, 100, "cropped and tiled", "extended"}}) {
    const std::string sizes = "n_q=" + std::to_string(row.n_q) +
                              ",n_k=" + std::to_string(row.n_k) + ",heads=3";
    const Case test_case = Attention("softmax_attention", sizes);
    const Made made(test_case);
    EXPECT_EQ(made.fit.fitted, row.fitted) << sizes;
    EXPECT_EQ(made.fit.offsets, row.offsets) << sizes;
    EXPECT_EQ(made.fit.rows, 512);
    const Inputs& source = test_case.source->inputs;
    for (int64_t h = 0; h < 3; ++h) {
      for (const char* name : {"q", "k", "v"}) {
        const int64_t rows = *name == 'q' ? row.n_q : row.n_k;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t c = 0; c < 64; ++c)
            ASSERT_EQ(made.inputs[name].Head(h)[i * 64 + c],
                      source[name].Head(h)[i % 512 * 64 + c])
                << sizes << " " << name << " row " << i;
      }
      for (int64_t i = 0; i < row.n_q; ++i)
        for (int64_t j = 0; j < row.n_k; ++j) {
          const int64_t offset = std::clamp<int64_t>(j - i, -511, 511);
          ASSERT_EQ(made.inputs["bias"].Head(h)[j - i + row.n_q - 1],
                    source["bias"].Head(h)[offset + 511])
              << sizes << " " << i << " " << j;
        }
    }
  }
}

// An image remains an image: pixels keep their neighbours, weights their
// offsets in both directions.
TEST(InputSource, Images) {
  struct Row {
    int64_t height, width;
    const char *fitted, *offsets;
  };
  for (const Row& row :
       {Row{60, 90, "as is", "as is"}, Row{20, 30, "cropped", "cropped"},
        Row{70, 200, "tiled", "extended"},
        Row{90, 60, "cropped and tiled", "extended"}}) {
    const Case test_case = Attention("toeplitz_2d",
                                     "height=" + std::to_string(row.height) +
                                         ",width=" + std::to_string(row.width),
                                     "photograph-blur");
    const Made made(test_case);
    EXPECT_EQ(made.fit.fitted, row.fitted);
    EXPECT_EQ(made.fit.offsets, row.offsets);
    EXPECT_EQ(made.fit.rows, 5400);
    const Inputs& source = test_case.source->inputs;
    for (int64_t r = 0; r < row.height; ++r)
      for (int64_t c = 0; c < row.width; ++c)
        for (int64_t colour = 0; colour < 3; ++colour)
          ASSERT_EQ(
              made.inputs["values"].values[(r * row.width + c) * 3 + colour],
              source["values"].values[(r % 60 * 90 + c % 90) * 3 + colour]);
    for (int64_t down = 1 - row.height; down < row.height; ++down)
      for (int64_t right = 1 - row.width; right < row.width; ++right)
        ASSERT_EQ(made.inputs["weights"]
                      .values[(down + row.height - 1) * (2 * row.width - 1) +
                              right + row.width - 1],
                  source["weights"]
                      .values[(std::clamp<int64_t>(down, -59, 59) + 59) * 179 +
                              std::clamp<int64_t>(right, -89, 89) + 89]);
  }
  // The image has the folder's sizes unless sizes are given; with n it is
  // nearly square as usual.
  const Case own = Attention("toeplitz_2d", "", "photograph-blur");
  EXPECT_EQ(own.params.Integer("height"), 60);
  EXPECT_EQ(own.params.Integer("width"), 90);
  const Case square = Attention("toeplitz_2d", "n=64", "photograph-blur");
  EXPECT_EQ(square.params.Integer("height"), 8);
}

TEST(InputSource, OtherOperatorsUseTheTensorsTheyKnow) {
  const Case test_case = Attention(
      "linear_attention", "n=40,heads=2,feature_map=prf", "minilm-layer5");
  const Made made(test_case);
  EXPECT_EQ(made.fit.taken, (std::vector<std::string>{"q", "k", "v"}));
  EXPECT_EQ(made.fit.generated, std::vector<std::string>{"omega"});
  EXPECT_EQ(made.fit.offsets, "");
  for (double value : made.inputs["omega"].values)
    EXPECT_TRUE(std::isfinite(value) && value != 0);
  EXPECT_EQ(made.inputs["k"].Head(1)[39 * 32 + 5],
            test_case.source->inputs["k"].Head(1)[39 * 32 + 5]);
  // Tests a folder without a head axis, and one whose sizes follow another
  // name.
  const Case cross =
      CaseFor("sparse_attention:n=9,pattern=local,block=3,input=" +
              std::string(kGoldenFolder) + "/softmax_attention-sharp");
  const Shape& leading = cross.source->problem.leading;
  EXPECT_EQ(cross.leading.heads, leading.empty() ? 0 : leading.back());
}

TEST(InputSource, NumbersAreRoundedToTheType) {
  Case test_case = Attention("softmax_attention", "n=30,heads=1");
  test_case.scalar = Scalar::kBFloat16;
  const Problem problem = ProblemOf(test_case);
  const Inputs inputs = GenerateInputs(test_case, problem);
  bool rounded = false;
  for (size_t i = 0; i < inputs["q"].values.size(); ++i) {
    const double exact = test_case.source->inputs["q"].values[i];
    EXPECT_EQ(inputs["q"].values[i], RoundTo(Scalar::kBFloat16, exact));
    rounded = rounded || inputs["q"].values[i] != exact;
  }
  EXPECT_TRUE(rounded);
}

TEST(InputSource, NumbersThatDoNotFitTheTypeAreRefused) {
  const fs::path folder = fs::path(testing::TempDir()) / "large_numbers";
  fs::create_directories(folder);
  const std::vector<int64_t> shape = {2, 1}, weights = {3};
  const std::vector<double> values = {1e300, 1}, ones = {1, 1, 1};
  WriteNpy(folder / "values.npy", shape, values, false);
  WriteNpy(folder / "out.npy", shape, values, false);
  WriteNpy(folder / "weights.npy", weights, ones, false);
  std::ofstream(folder / "case.json")
      << R"({"format": "case/1", "operator": "toeplitz_1d", "params": {},
             "inputs": {"values": "values.npy", "weights": "weights.npy"},
             "expected": {"out": "out.npy"}, "source": "a test"})";
  const Case wide =
      CaseFor("toeplitz_1d:scalar=float64,input=" + folder.string());
  EXPECT_EQ(GenerateInputs(wide, ProblemOf(wide))["values"].values[0], 1e300);
  const Case narrow =
      CaseFor("toeplitz_1d:scalar=float32,input=" + folder.string());
  EXPECT_THROW(GenerateInputs(narrow, ProblemOf(narrow)), InvalidInput);
  fs::remove_all(folder);
}

TEST(InputSource, IdsRepeatTheCase) {
  for (const auto& [rest, folder] :
       std::vector<std::pair<std::string, std::string>>{
           {"softmax_attention:", "mpnet-layer0"},
           {"softmax_attention:n=7,heads=1", "mpnet-layer11"},
           {"softmax_attention:n_q=7,n_k=900,causal=1", "minilm-layer0"},
           {"linear_attention:feature_map=trf,heads=2", "minilm-layer0"},
           {"transformer_xl_attention:", "mpnet-layer6"},
           {"transformer_xl_attention:n=5,M=0", "mpnet-layer6"},
           {"sparse_attention:pattern=bigbird", "mpnet-layer6"},
           {"toeplitz_1d:n=77", "photograph-blur"},
           {"toeplitz_2d:", "photograph-blur"},
           {"toeplitz_2d:height=5", "photograph-blur"},
           {"toeplitz_2d_xy:n=100", "photograph-learned-xy"}}) {
    if (rest.starts_with("toeplitz_1d")) {
      // The operator's weights are one vector, those of the folder a matrix.
      EXPECT_THROW(CaseFor(rest + ",input=" + kInputs + folder), InvalidInput);
      continue;
    }
    const std::string text =
        rest + (rest.back() == ':' ? "" : ",") + "input=" + kInputs + folder;
    const Case test_case = CaseFor(text);
    const Case back = CaseFor(test_case.Id());
    EXPECT_EQ(back.Id(), test_case.Id());
    EXPECT_EQ(back.sizes, test_case.sizes) << text;
    EXPECT_EQ(back.params, test_case.params) << text;
    EXPECT_EQ(back.leading.heads, test_case.leading.heads) << text;
    EXPECT_EQ(back.leading.per_head, test_case.leading.per_head) << text;
    EXPECT_EQ(back.with, test_case.with) << text;
    const Made first(test_case), second(back);
    for (size_t t = 0; t < first.inputs.tensors.size(); ++t)
      EXPECT_EQ(first.inputs.tensors[t].values, second.inputs.tensors[t].values)
          << text << " " << first.inputs.tensors[t].name;
  }
}

// A folder has a unique name, so that --resume finds finished records.
TEST(InputSource, Names) {
  const fs::path before = fs::current_path();
  fs::current_path(kSourceFolder);
  for (const std::string& path :
       {std::string("reports/inputs/mpnet-layer0"),
        std::string("reports/inputs/mpnet-layer0/"),
        std::string("./reports/inputs/../inputs//mpnet-layer0"),
        kInputs + "mpnet-layer0", kInputs + "mpnet-layer0/"})
    EXPECT_EQ(InputSourceName(path), "reports/inputs/mpnet-layer0") << path;
  EXPECT_EQ(InputSourceName("./normal"), "./normal");
  EXPECT_EQ(InputSourceName("../x"), "../x");
  EXPECT_EQ(InputSourceName("/nowhere/x"), "/nowhere/x");
  EXPECT_EQ(InputSourceName("a=b c"), "a=b c");
  for (const char* path : {"", "a,b", "a\nb"})
    EXPECT_THROW(InputSourceName(path), InvalidInput) << path;
  fs::current_path(before);
}

// A folder in the source tree has the same name everywhere, unless that name
// means something else in the current folder.
TEST(InputSource, NamesFromElsewhere) {
  const fs::path before = fs::current_path();
  const fs::path away = fs::path(testing::TempDir()) / "names_from_elsewhere";
  fs::create_directories(away);
  fs::current_path(away);
  const std::string name = "reports/inputs/mpnet-layer0";
  EXPECT_EQ(InputSourceName(kInputs + "mpnet-layer0/"), name);
  EXPECT_EQ(FindInputSource(name)->name, "mpnet-layer0");
  EXPECT_TRUE(InputSourceExists(name));
  EXPECT_FALSE(InputSourceExists("reports/inputs/nothing"));
  EXPECT_THROW(FindInputSource("reports/inputs/nothing"), InvalidInput);
  const Case test_case = CaseFor("softmax_attention:n=5,input=" + name);
  EXPECT_EQ(test_case.Id(), CaseFor(test_case.Id()).Id());
  EXPECT_EQ(test_case.input, name);
  fs::create_directories(away / "reports/inputs/mpnet-layer3");
  fs::create_directories(away / "reports/inputs/minilm-layer3");
  EXPECT_EQ(InputSourceName(kInputs + "minilm-layer3"),
            kInputs + "minilm-layer3");
  EXPECT_EQ(InputSourceName((away / "reports/inputs/minilm-layer3").string()),
            "reports/inputs/minilm-layer3");
  EXPECT_THROW(FindInputSource("reports/inputs/minilm-layer3"), InvalidInput);
  fs::current_path(before);
  fs::remove_all(away);
}

TEST(InputSource, RefusesWhatDoesNotFit) {
  for (const auto& [id, folder, words] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"softmax_attention:d=32", "mpnet-layer0", "q: expected d = 32"},
           {"softmax_attention:e=3", "mpnet-layer0", "v: expected e = 3"},
           {"softmax_attention:heads=5", "mpnet-layer0", "expected 5 heads"},
           {"softmax_attention:heads=0", "mpnet-layer0", "heads"},
           {"softmax_attention:per_head=0", "mpnet-layer0", "per_head"},
           {"toeplitz_1d:n=4", "mpnet-layer0", "found q, k, v, bias"},
           {"toeplitz_2d:n=4", "photograph-learned-xy", ""},
           {"toeplitz_1d:n=4", "photograph-blur", "dimensions"},
           {"softmax_attention:n=4", "no-such-folder", "no-such-folder"},
           {"softmax_attention:n=4", "", "case.json"}}) {
    try {
      CaseFor(id + ",input=" + kInputs + folder);
      EXPECT_EQ(words, "") << id << " was taken";
    } catch (const InvalidInput& error) {
      EXPECT_NE(words, "") << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << id << ": " << error.what();
    }
  }
}

TEST(InputSource, RecordsNameTheTensorsUsed) {
  const Case test_case = Attention("softmax_attention", "n=700");
  const Implementation& implementation =
      *ImplementationsOf(*test_case.op).front();
  const Record record =
      MakeRecord(test_case, ProblemOf(test_case), implementation, 1, Verdict{});
  EXPECT_EQ(record.input, test_case.input);
  ASSERT_TRUE(record.inputs);
  EXPECT_EQ(record.inputs->source, test_case.input);
  EXPECT_EQ(record.inputs->fit.rows, 512);
  EXPECT_EQ(record.inputs->fit.fitted, "tiled");
  EXPECT_EQ(record.inputs->fit.offsets, "extended");
  const Case made = CaseFor("softmax_attention:n=700");
  EXPECT_FALSE(
      MakeRecord(made, ProblemOf(made), implementation, 1, Verdict{}).inputs);
}

}  // namespace
}  // namespace subquad

#include "tests/harness/judging/malformed_cases.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string Nested(int levels, const std::string& open,
                   const std::string& close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += "1";
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

// Replaces the text of one field of case.json.
void RawField(Spoilt& spoilt, const std::string& field,
              const std::string& text) {
  spoilt.json[field] = "@";
  std::string raw = spoilt.json.dump();
  const size_t at = raw.find("\"@\"");
  Write(spoilt.folder / "case.json", raw.replace(at, 3, text));
}

std::vector<Malformed> TextCases() {
  const std::string base = "toeplitz_1d-square";
  std::vector<Malformed> list;
  const auto add = [&](std::string name, std::function<void(Spoilt&)> spoil,
                       std::vector<std::string> words) {
    list.push_back({std::move(name), base, std::move(spoil), std::move(words)});
  };
  for (const char* field :
       {"format", "operator", "params", "inputs", "expected", "source"}) {
    add(fmt::format("missing_{}", field),
        [=](Spoilt& spoilt) {
          spoilt.json.erase(field);
          spoilt.Save();
        },
        {field, "found none"});
    int index = 0;
    for (const Json& wrong :
         {Json(7), Json(nullptr), Json(true), Json::array({1}), Json(0.5)})
      add(fmt::format("wrong_type_{}_{}", field, index++),
          [=](Spoilt& spoilt) {
            spoilt.json[field] = wrong;
            spoilt.Save();
          },
          {field});
  }
  add("text_for_params",
      [](Spoilt& spoilt) { spoilt.json["params"] = "causal", spoilt.Save(); },
      {"params", "object"});
  add("object_for_operator",
      [](Spoilt& spoilt) {
        spoilt.json["operator"] = Json::object(), spoilt.Save();
      },
      {"operator"});
  add("unknown_field",
      [](Spoilt& spoilt) { spoilt.json["extra"] = 1, spoilt.Save(); },
      {"case.json: field: expected one of format, operator, params, inputs, "
       "expected, source, expected_error, found 'extra'"});
  add("misspelt_field",
      [](Spoilt& spoilt) { spoilt.json["expectd"] = 1, spoilt.Save(); },
      {"found 'expectd' (did you mean 'expected'?)"});
  add("unknown_field_with_a_line_break",
      [](Spoilt& spoilt) { spoilt.json["ex\ntra\x1b[2J"] = 1, spoilt.Save(); },
      {"tra"});
  add("unknown_field_very_long",
      [](Spoilt& spoilt) {
        spoilt.json[std::string(1 << 20, 'x')] = 1, spoilt.Save();
      },
      {"xxx"});
  add("wrong_format",
      [](Spoilt& spoilt) { spoilt.json["format"] = "case/2", spoilt.Save(); },
      {"format", "case/2"});
  add("unknown_operator",
      [](Spoilt& spoilt) {
        spoilt.json["operator"] = "toeplitz_4d", spoilt.Save();
      },
      {"operator", "toeplitz_4d"});
  add("operator_with_a_line_break",
      [](Spoilt& spoilt) {
        spoilt.json["operator"] = "a\nb\rc", spoilt.Save();
      },
      {"operator"});
  add("empty_file", [](Spoilt& spoilt) { spoilt.SetBytes("case.json", ""); },
      {"case.json"});
  add("broken_json",
      [](Spoilt& spoilt) {
        std::string text = spoilt.Bytes("case.json");
        spoilt.SetBytes("case.json", text.substr(0, text.size() / 2));
      },
      {"case.json", "JSON"});
  add("text_after_the_end",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("case.json", spoilt.Bytes("case.json") + "{}");
      },
      {"case.json", "JSON"});
  add("not_utf8",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("case.json", "{\"format\": \"\xff\xfe\"}");
      },
      {"case.json"});
  add("nul_bytes",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("case.json", std::string("{\"a\0\": 1}", 9));
      },
      {"case.json"});
  add("binary_noise",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("case.json", spoilt.Bytes("values.npy"));
      },
      {"case.json"});
  add("nan_literal",
      [](Spoilt& spoilt) { RawField(spoilt, "params", "{\"causal\": NaN}"); },
      {"case.json"});
  add("number_out_of_range",
      [](Spoilt& spoilt) { RawField(spoilt, "params", "{\"causal\": 1e999}"); },
      {"case.json"});
  add("array_for_an_object",
      [](Spoilt& spoilt) { spoilt.SetBytes("case.json", "[1, 2]"); },
      {"case.json"});
  add("number_for_an_object",
      [](Spoilt& spoilt) { spoilt.SetBytes("case.json", "12"); },
      {"case.json"});
  add("duplicate_field",
      [](Spoilt& spoilt) {
        std::string text = spoilt.json.dump();
        text.insert(1, "\"operator\": \"toeplitz_1d\", ");
        spoilt.SetBytes("case.json", text);
      },
      {"operator", "two"});
  add("duplicate_param",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params", "{\"causal\": true, \"causal\": false}");
      },
      {"causal", "two"});
  add("duplicate_input",
      [](Spoilt& spoilt) {
        RawField(spoilt, "inputs",
                 "{\"weights\": \"weights.npy\", \"values\": \"values.npy\", "
                 "\"values\": \"values.npy\"}");
      },
      {"values", "two"});
  add("deep_lists",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params",
                 "{\"causal\":" + Nested(200000, "[", "]") + "}");
      },
      {"case.json", "nest"});
  add("deep_objects",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params", Nested(200000, "{\"a\":", "}"));
      },
      {"case.json", "nest"});
  add("deep_entry_of_a_list",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params",
                 "{\"causal\": [1, " + Nested(100000, "[", "]") + "]}");
      },
      {"case.json", "nest"});
  add("too_large",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("case.json", std::string(17 << 20, ' '));
      },
      {"case.json", "16 MiB"});
  add("unknown_param",
      [](Spoilt& spoilt) { spoilt.json["params"]["clip"] = 3, spoilt.Save(); },
      {"parameter: expected one of causal, query_offset, key_lengths, found "
       "'clip'"});
  for (const Json& wrong : {Json(1), Json("true"), Json(nullptr), Json(0.0),
                            Json::array(), Json::object()})
    add("param_of_type_" + std::to_string(list.size()),
        [=](Spoilt& spoilt) {
          spoilt.json["params"]["causal"] = wrong, spoilt.Save();
        },
        {"parameter causal"});
  add("fraction_in_a_list",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params", "{\"key_lengths\": [1, 2.5]}");
      },
      {"parameter key_lengths: expected a list of integers, found [1,2.5]"});
  add("mixed_list",
      [](Spoilt& spoilt) {
        RawField(spoilt, "params", "{\"causal\": [[1], 2, \"x\"]}");
      },
      {"parameter causal"});
  return list;
}

std::vector<Malformed> ParamCases() {
  const std::string base = "toeplitz_2d-rect";
  std::vector<Malformed> list;
  const auto add = [&](std::string name, const std::string& params,
                       std::vector<std::string> words) {
    list.push_back({std::move(name), base,
                    [=](Spoilt& spoilt) { RawField(spoilt, "params", params); },
                    std::move(words)});
  };
  add("param_missing", "{\"height\": 5}", {"parameter width"});
  add("param_zero", "{\"height\": 0, \"width\": 7}", {"parameter height", "0"});
  add("param_negative", "{\"height\": 5, \"width\": -7}", {"parameter width"});
  add("param_fraction", "{\"height\": 5.5, \"width\": 7}",
      {"parameter height"});
  add("param_whole_float", "{\"height\": 5.0, \"width\": 7}",
      {"parameter height"});
  add("param_beyond_31_bits", "{\"height\": 2147483648, \"width\": 7}",
      {"parameter height: expected an integer from 1 to 2147483647, found "
       "2147483648"});
  add("param_beyond_63_bits", "{\"height\": 9223372036854775808, \"width\": 7}",
      {"parameter height"});
  add("param_beyond_64_bits",
      "{\"height\": 36893488147419103232, \"width\": 7}", {"parameter height"});
  add("param_least_integer", "{\"height\": -9223372036854775808, \"width\": 7}",
      {"parameter height"});
  add("params_swapped", "{\"height\": 7, \"width\": 5}",
      {"weights", "[13, 9]", "[9, 13]"});
  add("params_huge", "{\"height\": 2147483647, \"width\": 2147483647}",
      {"weights"});
  // The product 65536 * 65536 is 0 in 32 bits.
  add("params_wrap_around", "{\"height\": 65536, \"width\": 65536}",
      {"weights"});
  return list;
}

std::vector<Malformed> TensorCases() {
  const std::string base = "toeplitz_1d-square";
  std::vector<Malformed> list;
  const auto add = [&](std::string name, std::function<void(Spoilt&)> spoil,
                       std::vector<std::string> words) {
    list.push_back({std::move(name), base, std::move(spoil), std::move(words)});
  };
  const auto file = [](const std::string& path) {
    return [=](Spoilt& spoilt) {
      spoilt.json["inputs"]["values"] = path;
      spoilt.Save();
    };
  };
  add("input_missing",
      [](Spoilt& spoilt) {
        spoilt.json["inputs"].erase("values"), spoilt.Save();
      },
      {"input values", "none"});
  add("input_not_taken",
      [](Spoilt& spoilt) {
        spoilt.json["inputs"]["bias"] = "weights.npy", spoilt.Save();
      },
      {"input (with these parameters)", "one of weights, values",
       "found 'bias'"});
  add("input_not_taken_is_not_read",
      [](Spoilt& spoilt) {
        for (int i = 0; i < 1000; ++i)
          spoilt.json["inputs"]["x" + std::to_string(i)] = "values.npy";
        spoilt.Save();
      },
      {"found 'x0'"});
  for (const Json& wrong :
       {Json(7), Json(nullptr), Json::array({"values.npy"}), Json::object()})
    add("file_of_type_" + std::to_string(list.size()),
        [=](Spoilt& spoilt) {
          spoilt.json["inputs"]["values"] = wrong, spoilt.Save();
        },
        {"inputs: values"});
  add("file_missing", file("nowhere.npy"), {"values", "nowhere.npy"});
  add("file_name_empty", file(""), {"values"});
  add("file_name_with_nul", file(std::string("values.npy\0x", 12)), {"values"});
  add("file_name_with_a_line_break", file("val\nues.npy"), {"values"});
  add("file_name_very_long", file(std::string(100000, 'v')), {"values"});
  add("path_up", file("../toeplitz_1d-square-copy/values.npy"),
      {"values", ".."});
  add("path_up_and_back", file("sub/../values.npy"), {"values", ".."});
  add("path_absolute", file("/dev/zero"), {"values", "/dev/zero"});
  add("path_through_a_file", file("out.npy/values.npy"), {"values"});
  add("directory",
      [](Spoilt& spoilt) {
        fs::create_directory(spoilt.folder / "d.npy");
        spoilt.json["inputs"]["values"] = "d.npy";
        spoilt.Save();
      },
      {"values", "d.npy"});
  add("the_folder_itself", file("."), {"values"});
  add("link_out",
      [](Spoilt& spoilt) {
        fs::rename(spoilt.folder / "values.npy",
                   spoilt.folder / "../outside.npy");
        fs::create_symlink("../outside.npy", spoilt.folder / "values.npy");
      },
      {"values", "out"});
  add("link_to_a_device",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "values.npy");
        fs::create_symlink("/dev/zero", spoilt.folder / "values.npy");
      },
      {"values", "out"});
  add("link_in_a_linked_folder",
      [](Spoilt& spoilt) {
        fs::create_directory(spoilt.folder / "../elsewhere");
        fs::rename(spoilt.folder / "values.npy",
                   spoilt.folder / "../elsewhere/values.npy");
        fs::create_directory_symlink("../elsewhere", spoilt.folder / "sub");
        spoilt.json["inputs"]["values"] = "sub/values.npy";
        spoilt.Save();
      },
      {"values", "out"});
  add("link_to_a_sibling_of_the_same_prefix",
      [](Spoilt& spoilt) {
        const fs::path sibling = spoilt.folder.string() + "-longer";
        fs::create_directory(sibling);
        fs::rename(spoilt.folder / "values.npy", sibling / "values.npy");
        fs::create_symlink(sibling / "values.npy",
                           spoilt.folder / "values.npy");
      },
      {"values", "out"});
  add("link_loop",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "values.npy");
        fs::create_symlink("values2.npy", spoilt.folder / "values.npy");
        fs::create_symlink("values.npy", spoilt.folder / "values2.npy");
      },
      {"values"});
  add("link_to_itself",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "values.npy");
        fs::create_symlink("values.npy", spoilt.folder / "values.npy");
      },
      {"values"});
  add("case_json_links_out",
      [](Spoilt& spoilt) {
        fs::rename(spoilt.folder / "case.json", spoilt.folder / "../case.json");
        fs::create_symlink("../case.json", spoilt.folder / "case.json");
      },
      {"case.json", "out"});
  add("case_json_missing",
      [](Spoilt& spoilt) { fs::remove(spoilt.folder / "case.json"); },
      {"case.json"});
  add("case_json_is_a_directory",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "case.json");
        fs::create_directory(spoilt.folder / "case.json");
      },
      {"case.json"});
  add("case_json_is_a_pipe",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "case.json");
        ASSERT_EQ(::mkfifo((spoilt.folder / "case.json").c_str(), 0600), 0);
      },
      {"case.json"});
  add("pipe",
      [](Spoilt& spoilt) {
        fs::remove(spoilt.folder / "values.npy");
        ASSERT_EQ(::mkfifo((spoilt.folder / "values.npy").c_str(), 0600), 0);
      },
      {"values.npy"});
  add("not_a_folder",
      [](Spoilt& spoilt) {
        fs::remove_all(spoilt.folder);
        Write(spoilt.folder, "text");
      },
      {": expected a folder with case.json, found a file"});
  add("no_folder", [](Spoilt& spoilt) { fs::remove_all(spoilt.folder); },
      {": expected a folder with case.json, found nothing at this path"});

  // Arrays.
  add("npy_empty", [](Spoilt& spoilt) { spoilt.SetBytes("values.npy", ""); },
      {"values.npy"});
  add("npy_not_npy",
      [](Spoilt& spoilt) { spoilt.SetBytes("values.npy", "hello"); },
      {"values.npy"});
  add("npy_truncated",
      [](Spoilt& spoilt) {
        const std::string bytes = spoilt.Bytes("values.npy");
        spoilt.SetBytes("values.npy", bytes.substr(0, bytes.size() - 8));
      },
      {"values.npy"});
  add("npy_truncated_by_a_byte",
      [](Spoilt& spoilt) {
        const std::string bytes = spoilt.Bytes("values.npy");
        spoilt.SetBytes("values.npy", bytes.substr(0, bytes.size() - 1));
      },
      {"values.npy"});
  add("npy_header_alone",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("values.npy",
                        spoilt.Bytes("values.npy").substr(0, 128));
      },
      {"values.npy"});
  add("npy_trailing_byte",
      [](Spoilt& spoilt) {
        spoilt.SetBytes("values.npy", spoilt.Bytes("values.npy") + '\0');
      },
      {"values.npy"});
  add("npy_big_endian",
      [](Spoilt& spoilt) { spoilt.Patch("values.npy", "'<f4'", "'>f4'"); },
      {"values.npy", ">f4"});
  add("npy_fortran_order",
      [](Spoilt& spoilt) { spoilt.Patch("values.npy", "False", "True "); },
      {"values.npy", "ortran"});
  add("npy_integers",
      [](Spoilt& spoilt) { spoilt.Patch("values.npy", "'<f4'", "'<i4'"); },
      {"values.npy", "<i4"});
  add("npy_complex",
      [](Spoilt& spoilt) { spoilt.Patch("values.npy", "'<f4'", "'<c8'"); },
      {"values.npy", "<c8"});
  add("npy_promises_terabytes",
      [](Spoilt& spoilt) {
        std::string bytes = spoilt.Bytes("values.npy");
        const std::string header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, "
            "2), }";
        std::string text =
            header + std::string(117 - header.size(), ' ') + "\n";
        spoilt.SetBytes("values.npy",
                        bytes.substr(0, 10) + text + bytes.substr(128));
      },
      {"values.npy"});
  add("npy_promise_wraps_around",
      [](Spoilt& spoilt) {
        std::string bytes = spoilt.Bytes("values.npy");
        const std::string header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, "
            "4294967296), }";
        std::string text =
            header + std::string(117 - header.size(), ' ') + "\n";
        spoilt.SetBytes("values.npy",
                        bytes.substr(0, 10) + text + bytes.substr(128));
      },
      {"values.npy"});
  add("npy_one_dimension_of_six",
      [](Spoilt& spoilt) {
        std::string bytes = spoilt.Bytes("values.npy").substr(0, 10);
        const std::string header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, "
            "2), }";
        std::string text =
            header + std::string(117 - header.size(), ' ') + "\n";
        spoilt.SetBytes("values.npy", bytes + text + std::string(16, '\0'));
      },
      {"values.npy"});
  add("npy_zero_extent",
      [](Spoilt& spoilt) {
        std::string bytes = spoilt.Bytes("values.npy").substr(0, 10);
        const std::string header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2), }";
        std::string text =
            header + std::string(117 - header.size(), ' ') + "\n";
        spoilt.SetBytes("values.npy", bytes + text);
      },
      {"values.npy"});
  add("npy_scalar",
      [](Spoilt& spoilt) {
        std::string bytes = spoilt.Bytes("values.npy").substr(0, 10);
        const std::string header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (), }";
        std::string text =
            header + std::string(117 - header.size(), ' ') + "\n";
        spoilt.SetBytes("values.npy", bytes + text + std::string(8, '\0'));
      },
      {"values.npy"});

  // Shapes.
  add("weights_too_short",
      [](Spoilt& spoilt) { spoilt.SetArray("weights.npy", {1}); },
      {"weights", "n_q"});
  add("weights_too_many_dimensions",
      [](Spoilt& spoilt) {
        spoilt.SetArray("weights.npy", {1, 3, 2});
      },
      {"weights", "[1, 3, 2]"});
  add("values_one_dimension",
      [](Spoilt& spoilt) { spoilt.SetArray("values.npy", {5}); },
      {"values", "[5]"});
  add("weights_of_heads_that_the_answer_lacks",
      [](Spoilt& spoilt) {
        const auto shape = ReadNpy(spoilt.folder / "weights.npy").shape;
        spoilt.SetArray("weights.npy", {2, shape[0]});
      },
      {"output out", "[2, "});
  add("heads_differ",
      [](Spoilt& spoilt) {
        const auto weights = ReadNpy(spoilt.folder / "weights.npy").shape;
        const auto values = ReadNpy(spoilt.folder / "values.npy").shape;
        spoilt.SetArray("weights.npy", {3, weights[0]});
        spoilt.SetArray("values.npy", {2, values[0], values[1]});
      },
      {"values", "divides the 3 of weights"});

  // Numbers.
  for (const auto& [name, value] : std::vector<std::pair<std::string, double>>{
           {"nan", kNaN}, {"inf", kInfinity}, {"minus_inf", -kInfinity}}) {
    add("number_" + name,
        [=](Spoilt& spoilt) { spoilt.SetNumber("values.npy", 4, value); },
        {": values: expected finite numbers, found ", " at [0, 4]"});
    add("weight_" + name,
        [=](Spoilt& spoilt) { spoilt.SetNumber("weights.npy", 0, value); },
        {": weights: expected finite numbers, found ", " at [0]"});
    add("expected_" + name,
        [=](Spoilt& spoilt) { spoilt.SetNumber("out.npy", 1, value); },
        {": output out: expected finite numbers, found ", " at [0, 1]"});
  }

  // The message names the unknown input instead of the missing one.
  add("input_misspelt",
      [](Spoilt& spoilt) {
        spoilt.json["inputs"]["value"] = spoilt.json["inputs"]["values"];
        spoilt.json["inputs"].erase("values");
        spoilt.Save();
      },
      {"found 'value' (did you mean 'values'?)"});
  for (const Json& wrong : {Json(-1e-12), Json(1), Json("1e-12"), Json(true),
                            Json(nullptr), Json::array({1e-12})})
    add("expected_error_" + std::to_string(list.size()),
        [=](Spoilt& spoilt) {
          spoilt.json["expected_error"] = wrong, spoilt.Save();
        },
        {"expected_error", "from 0 to below 1"});

  // Expected.
  add("expected_empty",
      [](Spoilt& spoilt) {
        spoilt.json["expected"] = Json::object(), spoilt.Save();
      },
      {"expected"});
  add("expected_unknown",
      [](Spoilt& spoilt) {
        spoilt.json["expected"]["output"] = "out.npy", spoilt.Save();
      },
      {"case.json: output: expected out, found 'output'"});
  add("expected_of_the_backward_pass",
      [](Spoilt& spoilt) {
        spoilt.json["expected"] = {{"grad_values", "out.npy"}}, spoilt.Save();
      },
      {"grad_values"});
  add("expected_shape",
      [](Spoilt& spoilt) {
        spoilt.SetArray("out.npy", {2, 2});
      },
      {"output out", "[2, 2]"});
  add("expected_more_dimensions",
      [](Spoilt& spoilt) {
        auto shape = ReadNpy(spoilt.folder / "out.npy").shape;
        shape.insert(shape.begin(), 1);
        spoilt.SetArray("out.npy", shape);
      },
      {"output out"});
  add("expected_missing_file",
      [](Spoilt& spoilt) { fs::remove(spoilt.folder / "out.npy"); },
      {"output out", "out.npy"});
  add("expected_truncated",
      [](Spoilt& spoilt) {
        const std::string bytes = spoilt.Bytes("out.npy");
        spoilt.SetBytes("out.npy", bytes.substr(0, bytes.size() - 3));
      },
      {"out.npy"});
  add("grad_of_the_wrong_shape",
      [](Spoilt& spoilt) {
        spoilt.SetArray("grad.npy", {3, 3});
        spoilt.json["inputs"]["grad"] = "grad.npy";
        spoilt.Save();
      },
      {"weights", "n_q"});
  add("out_beside_grad",
      [](Spoilt& spoilt) {
        fs::copy(spoilt.folder / "out.npy", spoilt.folder / "grad.npy");
        spoilt.json["inputs"]["grad"] = "grad.npy";
        spoilt.Save();
      },
      {"out", "grad_values"});
  return list;
}

}  // namespace

std::vector<Malformed> AllMalformed() {
  std::vector<Malformed> list = TextCases();
  for (auto more : {ParamCases(), TensorCases()})
    std::ranges::move(more, std::back_inserter(list));
  return list;
}

}  // namespace subquad

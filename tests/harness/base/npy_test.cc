#include "harness/base/npy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

using Shape = std::vector<int64_t>;

class NpyTest : public testing::Test {
 protected:
  NpyTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "npy_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~NpyTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Path(const std::string& name) const {
    return folder_ / name;
  }

  std::filesystem::path Save(const std::string& name,
                             const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

  std::string Load(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }

  size_t FileCount() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder_)) {
      ++count;
    }
    return count;
  }

  std::filesystem::path folder_;
};

// Writes a file byte by byte as the format's description says. `length`
// overrides the header length with a false one.
std::string File(std::string_view header, std::string_view data = "",
                 int major = 1, int64_t length = -1, int minor = 0) {
  if (length < 0) length = static_cast<int64_t>(header.size());
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += static_cast<char>(minor);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>((length >> (8 * i)) & 255);
  }
  bytes += header;
  bytes += data;
  return bytes;
}

std::string Dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran +
         ", 'shape': " + shape + ", }";
}

template <typename Scalar>
std::string Raw(const std::vector<Scalar>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(Scalar));
}

NpyArray Parse(const std::string& bytes) {
  return ParseNpy(std::as_bytes(std::span<const char>(bytes)), "x.npy");
}

std::string Message(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidInput& refusal) {
    return refusal.what();
  }
  return "nothing refused";
}

std::string Refusal(const std::string& bytes) {
  return Message([&] { Parse(bytes); });
}

TEST_F(NpyTest, ReadsAFileWrittenByteByByte) {
  const unsigned char bytes[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  std::string file(reinterpret_cast<const char*>(bytes), sizeof bytes);
  file += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  file += std::string(127 - file.size(), ' ') + '\n';
  // The value 1.5 is 0x3fc00000 and -2 is 0xc0000000, lowest byte first.
  file += std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);

  const NpyArray array = ReadNpy(Save("a.npy", file));
  EXPECT_EQ(array.shape, (Shape{2, 1}));
  EXPECT_TRUE(array.is_float32);
  EXPECT_EQ(array.values, (std::vector<double>{1.5, -2.0}));
}

TEST_F(NpyTest, RoundTrip) {
  const std::vector<Shape> shapes = {{1},       {7},     {3, 5},    {1, 1, 1},
                                     {2, 3, 4}, {40000}, {200, 201}};
  for (const Shape& shape : shapes) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(std::sin(1.0 + static_cast<double>(i)));
    }
    for (const bool is_float32 : {true, false}) {
      if (!is_float32) values[0] = 0.1;  // has no exact float32
      WriteNpy(Path("a.npy"), shape, values, is_float32);
      const NpyArray array = ReadNpy(Path("a.npy"));
      EXPECT_EQ(array.shape, shape);
      EXPECT_EQ(array.is_float32, is_float32);
      EXPECT_EQ(array.values, values);
    }
  }
  EXPECT_EQ(FileCount(), 1u) << "a temporary file stayed behind";
}

TEST_F(NpyTest, WritesTheSameBytesAsNumPy) {
  const std::string header =
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
  const std::vector<double> values = {1.0, -0.0};
  WriteNpy(Path("a.npy"), Shape{2}, values, false);
  EXPECT_EQ(
      Load("a.npy"),
      File(header + std::string(117 - header.size(), ' ') + "\n", Raw(values)));
  EXPECT_EQ(NpyHeader(Shape{2}, false).size() % 64, 0u);
  EXPECT_EQ(NpyHeader(Shape{1234567, 12345, 12345}, false).size() % 64, 0u);
}

TEST_F(NpyTest, NanAndInfinityPass) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {std::nan(""), inf, -inf};
  for (const bool is_float32 : {true, false}) {
    WriteNpy(Path("a.npy"), Shape{3}, values, is_float32);
    const NpyArray array = ReadNpy(Path("a.npy"));
    EXPECT_TRUE(std::isnan(array.values[0]));
    EXPECT_EQ(array.values[1], inf);
    EXPECT_EQ(array.values[2], -inf);
  }
}

TEST_F(NpyTest, HeaderSpellingsThatPythonAccepts) {
  const std::string data = Raw<double>({4, 5, 6});
  const std::string spellings[] = {
      "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
      "{'shape':(3,),'descr':'<f8','fortran_order':False}",
      "  { \"descr\" : \"<f8\" ,\n\t\"fortran_order\" : False , "
      "\"shape\" : ( 3 , ) , }  \n",
      Dict("'<f8'", "(1, 3)"),
      Dict("'<f8'", "(1, 3,)"),
      Dict("'<f8'", "(1,3,1)"),
  };
  for (const std::string& header : spellings) {
    EXPECT_EQ(Parse(File(header, data)).values, (std::vector<double>{4, 5, 6}))
        << header;
    EXPECT_EQ(Parse(File(header, data, 2)).values,
              (std::vector<double>{4, 5, 6}))
        << header;
  }
}

TEST_F(NpyTest, EveryTruncationIsRefused) {
  for (const int major : {1, 2}) {
    const std::string whole =
        File(Dict("'<f4'", "(3,)"), Raw<float>({1, 2, 3}), major);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(Parse(whole.substr(0, size)), InvalidInput) << size;
      EXPECT_THROW(ReadNpy(Save("a.npy", whole.substr(0, size))), InvalidInput)
          << size;
    }
    EXPECT_NO_THROW(Parse(whole));
  }
  const std::string whole = File(Dict("'<f4'", "(3,)"));
  EXPECT_EQ(Refusal(""),
            "x.npy: not a .npy file: expected the signature '\\x93NUMPY' at "
            "its beginning, found 0 bytes; np.save writes such files");
  EXPECT_EQ(Refusal(whole.substr(0, 7)),
            "x.npy: expected 2 bytes of format version, found 1");
  EXPECT_EQ(Refusal(whole.substr(0, 9)),
            "x.npy: expected 2 bytes of header length, found 1");
  EXPECT_EQ(Refusal(whole.substr(0, 30)),
            "x.npy: expected 57 bytes of header, found 20");
}

TEST_F(NpyTest, DataMustMatchTheHeader) {
  const std::string header = Dict("'<f4'", "(73,)");
  const auto path = Save("weights.npy", File(header, std::string(288, '\0')));
  EXPECT_EQ(Message([&] { ReadNpy(path); }),
            "weights.npy: expected 292 bytes of data for <f4 [73], found 288");
  EXPECT_EQ(Refusal(File(header, std::string(293, '\0'))),
            "x.npy: expected 292 bytes of data for <f4 [73], found 293");
  EXPECT_EQ(Refusal(File(Dict("'<f8'", "(2, 3)"))),
            "x.npy: expected 48 bytes of data for <f8 [2, 3], found 0");
}

// An allocation of the declared size would throw bad_alloc instead of
// InvalidInput, or be killed.
TEST_F(NpyTest, DeclaredSizesAreComparedWithTheFileFirst) {
  EXPECT_EQ(Refusal(File(Dict("'<f8'", "(1099511627776, 1048575)"), "1234")),
            "x.npy: expected 9223363240761753600 bytes of data for <f8 "
            "[1099511627776, 1048575], found 4");
  EXPECT_EQ(Refusal(File("{", "", 2, 0xffffffff)),
            "x.npy: expected 4294967295 bytes of header, found 1");
  EXPECT_EQ(Refusal(File(std::string(70000, ' '), "", 2)),
            "x.npy: expected a header of at most 65535 bytes, found 70000");
}

TEST_F(NpyTest, SignatureAndVersion) {
  EXPECT_EQ(Refusal("hello world"),
            "x.npy: not a .npy file: expected the signature '\\x93NUMPY' at "
            "its beginning, found 'hello '; np.save writes such files");
  EXPECT_EQ(Refusal("PK\x03\x04" + std::string(60, '\0')),
            "x.npy: not a .npy file: expected the signature '\\x93NUMPY' at "
            "its beginning, found 'PK\\x03\\x04\\x00\\x00'; np.save writes "
            "such files");
  const std::string header = Dict("'<f4'", "(1,)");
  EXPECT_EQ(Refusal(File(header, "1234", 3)),
            "x.npy: expected NumPy format version 1.0 or 2.0, found 3.0");
  EXPECT_EQ(Refusal(File(header, "1234", 0)),
            "x.npy: expected NumPy format version 1.0 or 2.0, found 0.0");
  EXPECT_EQ(Refusal(File(header, "1234", 1, -1, 1)),
            "x.npy: expected NumPy format version 1.0 or 2.0, found 1.1");
}

TEST_F(NpyTest, Dtypes) {
  const std::pair<const char*, const char*> kCases[] = {
      {"'>f4'", "'>f4' (big-endian)"},
      {"'>f8'", "'>f8' (big-endian)"},
      {"'<f2'", "'<f2' (float16)"},
      {"'<f16'", "'<f16' (another float)"},
      {"'<i4'", "'<i4' (integers)"},
      {"'<u8'", "'<u8' (unsigned integers)"},
      {"'|i1'", "'|i1' (integers)"},
      {"'|b1'", "'|b1' (bool)"},
      {"'<c8'", "'<c8' (complex)"},
      {"'|O'", "'|O' (Python objects)"},
      {"'|S5'", "'|S5' (bytes)"},
      {"'<U5'", "'<U5' (text)"},
      {"'<M8[ns]'", "'<M8[ns]' (dates)"},
      {"'<m8[ns]'", "'<m8[ns]' (time spans)"},
      {"'|V2'", "'|V2' (raw bytes)"},
      {"'f4'", "'f4' (another float)"},
      {"'=f8'", "'=f8' (another float)"},
      {"'<f4 '", "'<f4 ' (another float)"},
      {"''", "''"},
      {"'<'", "'<'"},
  };
  for (const auto& [descr, found] : kCases) {
    EXPECT_EQ(Refusal(File(Dict(descr, "(1,)"), "12345678")),
              std::string("x.npy: expected dtype '<f4' or '<f8', found ") +
                  found + "; save x.astype(np.float32) instead of x");
  }
  for (const char* descr : {"[('a', '<f4'), ('b', '<f4')]", "('<f4', (2,))"}) {
    EXPECT_EQ(Refusal(File(Dict(descr, "(1,)"), "12345678")),
              "x.npy: expected dtype '<f4' or '<f8', found a structured dtype");
  }
}

// Masks may be booleans, integers or floats; other tensors are floats.
TEST_F(NpyTest, NumbersOfAnyType) {
  const auto parse = [](const char* descr, const std::string& bytes) {
    const std::string file = File(Dict(descr, "(3,)"), bytes);
    return ParseNpy(std::as_bytes(std::span<const char>(file)), "x.npy",
                    NpyTypes::kNumbers)
        .values;
  };
  const auto bytes_of = [](const auto& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  };
  const uint8_t flags[] = {1, 0, 1};
  const int8_t small[] = {1, 0, -5};
  const int64_t large[] = {1, 0, -5};
  const uint32_t positive[] = {1, 0, 0xFFFFFFFF};
  const uint16_t halves[] = {0x3C00, 0x0001, 0xFC00};  // 1, 2^-24, -inf
  const float singles[] = {1, 0, -0.5};
  const std::vector<double> zero_or_one = {1, 0, 1},
                            signed_numbers = {1, 0, -5};
  EXPECT_EQ(parse("'|b1'", bytes_of(flags)), zero_or_one);
  EXPECT_EQ(parse("'|u1'", bytes_of(flags)), zero_or_one);
  EXPECT_EQ(parse("'|i1'", bytes_of(small)), signed_numbers);
  EXPECT_EQ(parse("'<i8'", bytes_of(large)), signed_numbers);
  EXPECT_EQ(parse("'<u4'", bytes_of(positive)),
            std::vector<double>({1, 0, 4294967295.0}));
  EXPECT_EQ(parse("'<f2'", bytes_of(halves)),
            std::vector<double>({1, 0x1p-24, -HUGE_VAL}));
  EXPECT_EQ(parse("'<f4'", bytes_of(singles)),
            std::vector<double>({1, 0, -0.5}));
  for (const char* descr : {"'<c8'", "'>i4'", "'|O'", "'|b2'"}) {
    const std::string message =
        Message([&] { parse(descr, std::string(24, 'x')); });
    EXPECT_TRUE(message.starts_with(
        "x.npy: expected a dtype of booleans, integers or floats, "
        "little-endian, found '"))
        << message;
    EXPECT_TRUE(message.ends_with("; save x.astype(np.bool_) instead of x"))
        << message;
  }
}

TEST_F(NpyTest, FortranOrder) {
  EXPECT_EQ(Refusal(File(Dict("'<f4'", "(1, 1)", "True"), "1234")),
            "x.npy: expected C order, found Fortran order; save "
            "np.ascontiguousarray(x) instead of x");
  for (const char* word : {"0", "false", "'False'", "Falsely", "None", ""}) {
    EXPECT_EQ(Refusal(File(Dict("'<f4'", "(1,)", word), "1234")).substr(0, 68),
              "x.npy: expected a NumPy header with True or False for "
              "fortran_order,");
  }
}

TEST_F(NpyTest, Shapes) {
  const auto refusal = [](const std::string& shape) {
    return Refusal(File(Dict("'<f4'", shape), "1234"));
  };
  EXPECT_EQ(refusal("()"), "x.npy: expected 1 to 5 dimensions, found 0");
  EXPECT_EQ(refusal("(1, 1, 1, 1, 1, 1)"),
            "x.npy: expected 1 to 5 dimensions, found 6");
  EXPECT_EQ(refusal("(0,)"),
            "x.npy: expected dimensions of at least 1, found [0]");
  EXPECT_EQ(refusal("(2, 0)"),
            "x.npy: expected dimensions of at least 1, found [2, 0]");
  EXPECT_EQ(refusal("(-1, -1)"),
            "x.npy: expected dimensions of at least 1, found [-1, -1]");
  // A zero does not hide an overflow, nor an overflow a zero.
  EXPECT_EQ(refusal("(4294967296, 4294967296, 0)"),
            "x.npy: expected dimensions of at least 1, found [4294967296, "
            "4294967296, 0]");
  EXPECT_EQ(refusal("(9223372036854775807,)"),
            "x.npy: expected an array whose size fits into 64 bits, found "
            "[9223372036854775807]");
  // 2^32 * 2^32 is 0 modulo 2^64, 2^62 items of four bytes too.
  EXPECT_EQ(refusal("(4294967296, 4294967296)"),
            "x.npy: expected an array whose size fits into 64 bits, found "
            "[4294967296, 4294967296]");
  EXPECT_EQ(refusal("(4611686018427387904,)"),
            "x.npy: expected an array whose size fits into 64 bits, found "
            "[4611686018427387904]");
  EXPECT_EQ(refusal("(9223372036854775808,)"),
            "x.npy: expected dimensions that fit into 64 bits, found "
            "9223372036854775808");
  EXPECT_EQ(refusal("(-9223372036854775809,)"),
            "x.npy: expected dimensions that fit into 64 bits, found "
            "-9223372036854775809");
  for (const char* shape :
       {"1",      "(1)",    "(,)",    "(1,,)",   "(1 1)",   "[1]",    "(1",
        "(01,)",  "(+1,)",  "(1L,)",  "(1.0,)",  "(1e0,)",  "(0x1,)", "(1_0,)",
        "(- 1,)", "(--1,)", "('1',)", "(True,)", "((1,),)", "(1;)",   ""}) {
    EXPECT_EQ(refusal(shape).substr(0, 36),
              "x.npy: expected a NumPy header with ")
        << shape;
  }
}

TEST_F(NpyTest, HeadersThatAreNotADict) {
  EXPECT_EQ(Refusal(File("")),
            "x.npy: expected a NumPy header with a dict in braces, found its "
            "end");
  EXPECT_EQ(Refusal(File("{}")),
            "x.npy: expected a NumPy header with the key 'descr', found none");
  EXPECT_EQ(Refusal(File("{'descr': '<f4'}")),
            "x.npy: expected a NumPy header with the key 'fortran_order', "
            "found none");
  EXPECT_EQ(Refusal(File("{'descr': '<f4', 'fortran_order': False}")),
            "x.npy: expected a NumPy header with the key 'shape', found none");
  EXPECT_EQ(Refusal(File("{'descr': '<f4', 'descr': '<f4'}")),
            "x.npy: expected a NumPy header with the key 'descr' once, found "
            "it twice");
  EXPECT_EQ(Refusal(File("{'shape': (1,), 'colour': 3}")),
            "x.npy: expected the header keys descr, fortran_order and shape, "
            "found the key 'colour'");
  const std::string good = Dict("'<f4'", "(1,)");
  ASSERT_NO_THROW(Parse(File(good, "1234")));
  const std::string malformed[] = {
      good + "x",
      good + good,
      good.substr(1),
      good.substr(0, good.size() - 1),
      "[" + good.substr(1, good.size() - 2) + "]",
      "(" + good + ")",
      good + std::string(1, '\0'),
      std::string(1, '\0') + good,
      "{,}",
      "{'descr' '<f4'}",
      "{'descr': <f4}",
      "{'descr': '<f4}",
      "{'descr\": '<f4'}",
      "{'descr': u'<f4'}",
      "{descr: '<f4'}",
      "{'descr': '<f4' 'fortran_order': False}",
      "{'descr': '<f4',, 'fortran_order': False}",
      "{'descr': '\\x3cf4'}",
      "{'descr': '<f\xc3\xa9'}",
      "{'descr': None}",
      "{'fortran_order'}",
  };
  for (const std::string& header : malformed) {
    EXPECT_EQ(Refusal(File(header, "1234")).substr(0, 36),
              "x.npy: expected a NumPy header with ")
        << header;
  }
}

// Messages are one short line whatever the file contains.
TEST_F(NpyTest, MessagesAreOneLine) {
  const std::string noise = "a\nb\r\x1b[31m\xff" + std::string(5000, 'k');
  const std::string long_text(5000, 'k');
  for (const std::string& header :
       {noise, "{'" + noise + "': 1}", "{'" + long_text + "': 1}",
        "{'" + long_text + "' 1}", Dict("'" + long_text + "'", "(1,)"),
        Dict("'<f4'", "(" + std::string(5000, '7') + ",)"),
        Dict("'<f4'", "(" + std::string(5000, '-') + ",)")}) {
    const std::string message = Refusal(File(header, "1234"));
    EXPECT_EQ(message.substr(0, 16), "x.npy: expected ");
    EXPECT_LT(message.size(), 400u);
    for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  }
  EXPECT_EQ(Message([&] { ReadNpy(Path("a\nb.npy")); }),
            "a?b.npy: expected a regular file, found No such file or "
            "directory");
}

TEST_F(NpyTest, OnlyRegularFilesAreRead) {
  EXPECT_EQ(Message([&] { ReadNpy(Path("none.npy")); }),
            "none.npy: expected a regular file, found No such file or "
            "directory");
  EXPECT_EQ(Message([&] { ReadNpy(Path("")); }),
            Path("").string() + ": expected a regular file, found a directory");
  std::filesystem::create_directory(Path("folder.npy"));
  EXPECT_EQ(Message([&] { ReadNpy(Path("folder.npy")); }),
            "folder.npy: expected a regular file, found a directory");
  // Reading a pipe without a writer would wait for ever.
  ASSERT_EQ(::mkfifo(Path("pipe.npy").c_str(), 0600), 0);
  EXPECT_EQ(Message([&] { ReadNpy(Path("pipe.npy")); }),
            "pipe.npy: expected a regular file, found a pipe");
  EXPECT_EQ(Message([&] { ReadNpy("/dev/zero"); }),
            "zero: expected a regular file, found a character device");
  std::filesystem::create_symlink("/dev/zero", Path("link.npy"));
  EXPECT_EQ(Message([&] { ReadNpy(Path("link.npy")); }),
            "link.npy: expected a regular file, found a character device");
  std::filesystem::create_symlink("loop.npy", Path("loop.npy"));
  EXPECT_THROW(ReadNpy(Path("loop.npy")), InvalidInput);
  std::filesystem::create_symlink("nowhere.npy", Path("dangling.npy"));
  EXPECT_THROW(ReadNpy(Path("dangling.npy")), InvalidInput);
}

TEST_F(NpyTest, UnreadableFile) {
  const auto path = Save("a.npy", File(Dict("'<f4'", "(1,)"), "1234"));
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  if (::access(path.c_str(), R_OK) == 0) GTEST_SKIP() << "root reads all";
  EXPECT_EQ(Message([&] { ReadNpy(path); }),
            "a.npy: expected a readable file, found Permission denied");
}

// A sparse file costs nothing to make and may be larger than any memory.
TEST_F(NpyTest, SparseFiles) {
  const std::string small = File(Dict("'<f4'", "(1,)"), "1234");
  const auto path = Save("a.npy", small);
  const int64_t size = int64_t{1} << 43;
  std::error_code error;
  std::filesystem::resize_file(path, static_cast<uintmax_t>(size), error);
  if (error) GTEST_SKIP() << "no files with holes here: " << error.message();
  EXPECT_EQ(Message([&] { ReadNpy(path); }),
            "a.npy: expected 4 bytes of data for <f4 [1], found " +
                std::to_string(size - static_cast<int64_t>(small.size()) + 4));

  const std::string header = NpyHeader(Shape{size / 4}, true);
  Save("a.npy", header);
  std::filesystem::resize_file(path,
                               static_cast<uintmax_t>(size) + header.size());
  EXPECT_EQ(Message([&] { ReadNpy(path); }),
            "a.npy: expected an array that fits into memory, found "
            "8796093022208 bytes of data for <f4 [2199023255552]");
}

TEST_F(NpyTest, WriterRefuses) {
  const std::vector<double> six(6, 1.0);
  const auto refusal = [&](const Shape& shape, bool is_float32 = false) {
    return Message([&] { WriteNpy(Path("a.npy"), shape, six, is_float32); });
  };
  EXPECT_EQ(refusal({}), "a.npy: expected 1 to 5 dimensions, found 0");
  EXPECT_EQ(refusal({1, 2, 3, 1, 1, 1}),
            "a.npy: expected 1 to 5 dimensions, found 6");
  EXPECT_EQ(refusal({6, 0}),
            "a.npy: expected dimensions of at least 1, found [6, 0]");
  EXPECT_EQ(refusal({-2, -3}),
            "a.npy: expected dimensions of at least 1, found [-2, -3]");
  EXPECT_EQ(refusal({5}), "a.npy: expected 5 values for [5], found 6");
  EXPECT_EQ(Message([&] {
              WriteNpy(Path("a.npy"), Shape{1}, std::vector<double>{1e39},
                       true);
            }).substr(0, 53),
            "a.npy: expected values that fit into float32, found 9");
  EXPECT_EQ(Message([&] { WriteNpy(Path("no/a.npy"), Shape{6}, six, false); }),
            "a.npy: expected a writable place, found No such file or "
            "directory");
  EXPECT_EQ(FileCount(), 0u);

  // The rename fails last, after everything is written: nothing may be left
  // behind.
  std::filesystem::create_directory(Path("a.npy"));
  EXPECT_EQ(refusal({6}),
            "a.npy: expected a writable place, found Is a directory");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(NpyTest, WriterReplacesAtomically) {
  WriteNpy(Path("a.npy"), Shape{2}, std::vector<double>{1, 2}, false);
  const int old = ::open(Path("a.npy").c_str(), O_RDONLY);
  WriteNpy(Path("a.npy"), Shape{1}, std::vector<double>{3}, true);
  // A reader that opened the old file still reads the old content.
  struct stat status = {};
  ASSERT_EQ(::fstat(old, &status), 0);
  EXPECT_EQ(status.st_size, 128 + 16);
  ::close(old);
  EXPECT_EQ(ReadNpy(Path("a.npy")).values, (std::vector<double>{3}));
  EXPECT_EQ(FileCount(), 1u);
}

}  // namespace
}  // namespace subquad

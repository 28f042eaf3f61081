#include "harness/base/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/npy_header.h"
#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are copied as they are");
static_assert(std::numeric_limits<double>::is_iec559);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
constexpr size_t kChunkBytes = 1 << 16;
constexpr size_t kMaxDimensions = 5;

// Version 2.0 allows headers of 4 GiB. A header for three dimensions has about
// a hundred bytes, so that the limit of version 1.0 is enough.
constexpr size_t kMaxHeaderBytes = 65535;

// Returns the name of a file for messages, on one line. Bytes above ASCII are
// kept, since names may be in any alphabet.
std::string DisplayName(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  if (name.empty()) name = path.string();
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return name;
}

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

// A source of bytes whose size is known before anything is read.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t Size() const = 0;
  // Fills `out` with the next bytes; returns how many there were.
  virtual size_t Read(std::span<std::byte> out) = 0;
};

class MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes)
      : size_(bytes.size()), rest_(bytes) {}

  uint64_t Size() const override { return size_; }

  size_t Read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), count, out.begin());
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  uint64_t size_;
  std::span<const std::byte> rest_;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  // Closes the file now, so that an error can be reported.
  bool Close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

class FileSource : public Source {
 public:
  FileSource(const std::filesystem::path& path, const std::string& name)
      : name_(name), file_(OpenRegular(path, name)) {
    struct stat status = {};
    if (::fstat(file_.get(), &status) != 0) Fail(errno);
    // Checks the opened file again: the name may refer to another one by now.
    RequireRegular(status, name_);
    size_ = static_cast<uint64_t>(status.st_size);
  }

  uint64_t Size() const override { return size_; }

  size_t Read(std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          ::read(file_.get(), out.data() + done, out.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Fail(errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  static void RequireRegular(const struct stat& status,
                             const std::string& name) {
    if (S_ISREG(status.st_mode)) return;
    const char* kind = S_ISDIR(status.st_mode)    ? "a directory"
                       : S_ISFIFO(status.st_mode) ? "a pipe"
                       : S_ISCHR(status.st_mode)  ? "a character device"
                       : S_ISBLK(status.st_mode)  ? "a block device"
                       : S_ISSOCK(status.st_mode) ? "a socket"
                                                  : "another kind of file";
    throw InvalidInput(name, "a regular file", kind);
  }

  // Checks the kind of file before it opens it, since opening some devices has
  // effects, and opens without waiting, in case the name becomes a pipe in
  // between.
  static int OpenRegular(const std::filesystem::path& path,
                         const std::string& name) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
      throw InvalidInput(name, "a regular file", ErrorText(errno));
    }
    RequireRegular(status, name);
    const int number =
        ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (number < 0) {
      throw InvalidInput(name, "a readable file", ErrorText(errno));
    }
    return number;
  }

  [[noreturn]] void Fail(int error) const {
    throw InvalidInput(name_, "a readable file", ErrorText(error));
  }

  std::string name_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

uint64_t PhysicalMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) {
    return std::numeric_limits<size_t>::max() / 2;
  }
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

// Returns the number of bytes of an array.
uint64_t DataBytes(std::span<const int64_t> shape, size_t item_bytes,
                   const std::string& name) {
  if (shape.empty() || shape.size() > kMaxDimensions) {
    throw InvalidInput(name, "1 to 5 dimensions", std::to_string(shape.size()));
  }
  int64_t room =
      std::numeric_limits<int64_t>::max() / static_cast<int64_t>(item_bytes);
  uint64_t bytes = item_bytes;
  for (const int64_t dimension : shape) {
    if (dimension < 1) {
      throw InvalidInput(name, "dimensions of at least 1", ShapeText(shape));
    }
  }
  for (const int64_t dimension : shape) {
    if (dimension > room) {
      throw InvalidInput(name, "an array whose size fits into 64 bits",
                         ShapeText(shape));
    }
    room /= dimension;
    bytes *= static_cast<uint64_t>(dimension);
  }
  return bytes;
}

// A number of float16, by its bits.
struct Half {
  uint16_t bits;

  operator double() const {  // NOLINT: as the built-in types do
    const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    const double size = exponent == 0x1F
                            ? (fraction ? NAN : HUGE_VAL)
                            : std::ldexp(exponent ? 0x400 + fraction : fraction,
                                         std::max(exponent, 1) - 25);
    return bits & 0x8000 ? -size : size;
  }
};

class Reader {
 public:
  Reader(Source& source, const std::string& name, NpyTypes types)
      : source_(source), name_(name), types_(types), rest_(source.Size()) {}

  // Reads everything except the values.
  NpyArray ReadHeader() {
    if (rest_ < kMagic.size()) FailMagic(std::to_string(rest_) + " bytes");
    const std::string magic = Take(kMagic.size(), "NumPy signature");
    if (magic != kMagic) FailMagic(Quoted(magic));
    const size_t length = TakeHeaderLength();
    const NpyHeaderFields header =
        ParseNpyHeader(Take(length, "header"), name_);

    type_ = FindType(header.descr);
    if (header.fortran_order) {
      throw InvalidInput(
          name_, "C order",
          "Fortran order; save np.ascontiguousarray(x) instead of x");
    }
    NpyArray array;
    array.shape = header.shape;
    array.is_float32 = header.descr == "<f4";
    const uint64_t bytes = DataBytes(array.shape, type_->item_bytes, name_);
    what_ = "data for " + header.descr + " " + ShapeText(array.shape);
    if (bytes != rest_) FailSize(bytes, rest_);

    // The file has the declared size, so that the allocation is safe to try. It
    // may still fail: a file with holes can be larger than the memory.
    const uint64_t count = bytes / type_->item_bytes;
    if (count > PhysicalMemoryBytes() / sizeof(double)) FailMemory(bytes);
    return array;
  }

  NpyArray Read() {
    NpyArray array = ReadHeader();
    const uint64_t bytes = rest_;
    try {
      array.values.resize(static_cast<size_t>(bytes / type_->item_bytes));
    } catch (const std::bad_alloc&) {
      FailMemory(bytes);
    }
    (this->*type_->take)(array.values);
    // A file that is still being written may have grown since.
    std::byte extra;
    if (source_.Read({&extra, 1}) != 0) FailSize(bytes, bytes + 1);
    return array;
  }

 private:
  // A type of numbers by its name in headers.
  struct Type {
    std::string_view descr;
    size_t item_bytes;
    void (Reader::*take)(std::vector<double>&);
  };
  template <typename Scalar>
  static constexpr Type TypeOf(std::string_view descr) {
    return {descr, sizeof(Scalar), &Reader::TakeNumbers<Scalar>};
  }

  const Type* FindType(const std::string& descr) const {
    static constexpr Type kTypes[] = {
        TypeOf<float>("<f4"),   TypeOf<double>("<f8"),
        TypeOf<Half>("<f2"),    TypeOf<uint8_t>("|b1"),
        TypeOf<int8_t>("|i1"),  TypeOf<uint8_t>("|u1"),
        TypeOf<int16_t>("<i2"), TypeOf<uint16_t>("<u2"),
        TypeOf<int32_t>("<i4"), TypeOf<uint32_t>("<u4"),
        TypeOf<int64_t>("<i8"), TypeOf<uint64_t>("<u8"),
    };
    constexpr size_t kFloats = 2;  // they come first
    const bool only_floats = types_ == NpyTypes::kFloats;
    const std::span<const Type> accepted(
        kTypes, only_floats ? kFloats : std::size(kTypes));
    for (const Type& type : accepted)
      if (type.descr == descr) return &type;
    throw InvalidInput(
        name_,
        only_floats ? "dtype '<f4' or '<f8'"
                    : "a dtype of booleans, integers or floats, little-endian",
        NpyDtypeText(descr) + "; save x.astype(np." +
            (only_floats ? "float32" : "bool_") + ") instead of x");
  }

  [[noreturn]] void FailMagic(const std::string& found) const {
    throw InvalidInput(name_ + ": not a .npy file",
                       "the signature " + Quoted(kMagic) + " at its beginning",
                       found + "; np.save writes such files");
  }

  [[noreturn]] void FailSize(uint64_t expected, uint64_t found) const {
    throw InvalidInput(name_, std::to_string(expected) + " bytes of " + what_,
                       std::to_string(found));
  }

  [[noreturn]] void FailMemory(uint64_t bytes) const {
    throw InvalidInput(name_, "an array that fits into memory",
                       std::to_string(bytes) + " bytes of " + what_);
  }

  std::string Take(size_t count, const std::string& what) {
    what_ = what;
    if (count > rest_) FailSize(count, rest_);
    std::string bytes(count, '\0');
    const size_t got = source_.Read(
        std::as_writable_bytes(std::span<char>(bytes.data(), bytes.size())));
    if (got != count) FailSize(count, got);
    rest_ -= count;
    return bytes;
  }

  size_t TakeHeaderLength() {
    const std::string version = Take(2, "format version");
    const auto major = static_cast<unsigned char>(version[0]);
    const auto minor = static_cast<unsigned char>(version[1]);
    if ((major != 1 && major != 2) || minor != 0) {
      throw InvalidInput(name_, "NumPy format version 1.0 or 2.0",
                         std::to_string(major) + "." + std::to_string(minor));
    }
    const std::string digits = Take(major == 1 ? 2 : 4, "header length");
    size_t length = 0;
    for (size_t i = digits.size(); i-- > 0;) {
      length = length * 256 + static_cast<unsigned char>(digits[i]);
    }
    what_ = "header";
    if (length > rest_) FailSize(length, rest_);
    if (length > kMaxHeaderBytes) {
      throw InvalidInput(
          name_,
          "a header of at most " + std::to_string(kMaxHeaderBytes) + " bytes",
          std::to_string(length));
    }
    return length;
  }

  // Converts in pieces, so that the file is not in memory twice.
  template <typename Scalar>
  void TakeNumbers(std::vector<double>& values) {
    constexpr size_t kPiece = kChunkBytes / sizeof(Scalar);
    std::vector<Scalar> piece(std::min(kPiece, values.size()));
    for (size_t done = 0; done < values.size(); done += piece.size()) {
      piece.resize(std::min(kPiece, values.size() - done));
      const std::span<std::byte> bytes =
          std::as_writable_bytes(std::span<Scalar>(piece));
      const size_t got = source_.Read(bytes);
      if (got != bytes.size()) {
        FailSize(values.size() * sizeof(Scalar), done * sizeof(Scalar) + got);
      }
      std::copy(piece.begin(), piece.end(),
                values.begin() + static_cast<std::ptrdiff_t>(done));
    }
  }

  Source& source_;
  std::string name_;
  const NpyTypes types_;
  const Type* type_ = nullptr;  // of the numbers, once the header is read
  uint64_t rest_;
  std::string what_;
};

// A file under a temporary name, which is removed unless it is published.
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& path, const std::string& name)
      : name_(name),
        path_(TemporaryName(path)),
        file_(::open(path_.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     0666)) {
    if (file_.get() < 0) Fail(errno);
  }

  ~TemporaryFile() {
    if (!published_) ::unlink(path_.c_str());
  }

  void Write(const void* data, size_t count) {
    const char* rest = static_cast<const char*>(data);
    while (count > 0) {
      const ssize_t put = ::write(file_.get(), rest, count);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) Fail(errno);
      rest += put;
      count -= static_cast<size_t>(put);
    }
  }

  void Publish(const std::filesystem::path& path) {
    if (!file_.Close()) Fail(errno);
    if (::rename(path_.c_str(), path.c_str()) != 0) Fail(errno);
    published_ = true;
  }

 private:
  static std::filesystem::path TemporaryName(
      const std::filesystem::path& path) {
    static std::atomic<unsigned> counter = 0;
    std::filesystem::path name = path;
    name += "." + std::to_string(::getpid()) + "." + std::to_string(counter++) +
            ".tmp";
    return name;
  }

  [[noreturn]] void Fail(int error) const {
    throw InvalidInput(name_, "a writable place", ErrorText(error));
  }

  std::string name_;
  std::filesystem::path path_;
  FileDescriptor file_;
  bool published_ = false;
};

template <typename Scalar>
void WriteNumbers(std::span<const double> values, TemporaryFile& file) {
  constexpr size_t kPiece = kChunkBytes / sizeof(Scalar);
  std::vector<Scalar> piece;
  for (size_t done = 0; done < values.size(); done += kPiece) {
    piece.clear();
    for (const double value :
         values.subspan(done, std::min(kPiece, values.size() - done))) {
      piece.push_back(static_cast<Scalar>(value));
    }
    file.Write(piece.data(), piece.size() * sizeof(Scalar));
  }
}

std::string HeaderFor(std::span<const int64_t> shape, bool is_float32) {
  std::string dict = "{'descr': '";
  dict += is_float32 ? "<f4" : "<f8";
  dict += "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    dict += (i ? ", " : "") + std::to_string(shape[i]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";

  const size_t before = kMagic.size() + 4;
  const size_t used = before + dict.size() + 1;
  dict.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  dict += '\n';

  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dict.size() & 255),
             static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace

NpyArray ReadNpy(const std::filesystem::path& path, NpyTypes types) {
  const std::string name = DisplayName(path);
  FileSource source(path, name);
  return Reader(source, name, types).Read();
}

NpyArray ReadNpyHeader(const std::filesystem::path& path, NpyTypes types) {
  const std::string name = DisplayName(path);
  FileSource source(path, name);
  return Reader(source, name, types).ReadHeader();
}

NpyArray ParseNpy(std::span<const std::byte> bytes, const std::string& name,
                  NpyTypes types) {
  MemorySource source(bytes);
  return Reader(source, name, types).Read();
}

std::string NpyHeader(std::span<const int64_t> shape, bool is_float32) {
  DataBytes(shape, is_float32 ? 4 : 8, "NumPy header");
  return HeaderFor(shape, is_float32);
}

void WriteNpy(const std::filesystem::path& path, std::span<const int64_t> shape,
              std::span<const double> values, bool is_float32) {
  const std::string name = DisplayName(path);
  const size_t item_bytes = is_float32 ? 4 : 8;
  const uint64_t count = DataBytes(shape, item_bytes, name) / item_bytes;
  if (values.size() != count) {
    throw InvalidInput(
        name, std::to_string(count) + " values for " + ShapeText(shape),
        std::to_string(values.size()));
  }
  if (is_float32) {
    for (const double value : values) {
      if (std::isfinite(value) && !std::isfinite(static_cast<float>(value))) {
        throw InvalidInput(name, "values that fit into float32",
                           std::to_string(value));
      }
    }
  }
  const std::string header = HeaderFor(shape, is_float32);
  TemporaryFile file(path, name);
  file.Write(header.data(), header.size());
  if (is_float32) {
    WriteNumbers<float>(values, file);
  } else {
    WriteNumbers<double>(values, file);
  }
  file.Publish(path);
}

}  // namespace subquad

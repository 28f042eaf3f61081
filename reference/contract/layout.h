// The memory of an algorithm, declared once. Every array is a member that its
// constructor obtains from a Layout. One kind of layout allocates; the other,
// which Implementation::CostOf uses, counts bytes and returns null. The
// workspace is thus never given by a formula that could differ from the
// allocations.
//
//   template <typename T>
//   class Fft : public Prepared {
//    public:
//     Fft(const Problem& problem, const Arrays& arrays, Layout& layout)
//         : arrays_(arrays), pool_(layout), fft_(layout, Length(problem)),
//           spectra_(layout, problem.heads * fft_.column_size()),
//           columns_(layout, 16 * fft_.column_size()) {}
//     void Run() override;
//     double Flops() const override;
//
//    private:
//     const Arrays arrays_;
//     ThreadPool pool_;
//     CirculantFft<T> fft_;   // a part takes its arrays from the same layout
//     Buffer<T> spectra_;     // workspace; tables of a plan are PlanTable<T>
//     PerThread<T> columns_;  // columns_[worker]: as many for each thread
//   };
//
// and its row says `.prepare = PrepareFor<Fft>`. What a library allocates by
// itself is announced by Add. While a layout counts, constructors start no
// threads and measure no plans, and the tensors' pointers are null.
#pragma once

#include <algorithm>
#include <cstdint>

namespace subquad {

struct PrepareOptions {
  int threads = 1;
  bool tune = false;  // measure plans instead of estimating
};

class Layout {
 public:
  // Makes a layout that allocates.
  explicit Layout(const PrepareOptions& options) : options_(options) {}
  // Makes a layout that only counts.
  static Layout Counting(int threads) {
    Layout layout({.threads = threads});
    layout.counting_ = true;
    return layout;
  }

  bool counting() const { return counting_; }
  int threads() const { return std::max(1, options_.threads); }
  bool tune() const { return options_.tune; }

  // Bytes so far, without guard words and padding.
  double bytes() const { return bytes_; }
  void Add(double bytes) { bytes_ += bytes; }

 private:
  PrepareOptions options_;
  bool counting_ = false;
  double bytes_ = 0;
};

// Cuts arrays from one block, one after another. Without a block it returns
// null pointers, so that the same struct of pointers also computes the size of
// its block:
//
//   struct Tile {
//     Tile(Cut<T>& cut, int64_t d) : query(cut(64 * d)), sums(cut(64)) {}
//     T *query, *sums;
//   };
//   PerThread<T> work_(layout, Cut<T>::Size<Tile>(d));
//   Tile tile = Cut<T>::template Make<Tile>(work_[worker], d);
template <typename T>
class Cut {
 public:
  explicit Cut(T* block = nullptr) : block_(block) {}

  T* operator()(int64_t count) {
    T* const array = block_ ? block_ + used_ : nullptr;
    used_ += count;
    return array;
  }
  int64_t used() const { return used_; }

  template <typename Arrays, typename... Sizes>
  static Arrays Make(T* block, const Sizes&... sizes) {
    Cut cut(block);
    return Arrays(cut, sizes...);
  }
  // Returns the number of elements of T that Make needs.
  template <typename Arrays, typename... Sizes>
  static int64_t Size(const Sizes&... sizes) {
    Cut cut;
    Arrays(cut, sizes...);
    return cut.used();
  }

 private:
  T* block_;
  int64_t used_ = 0;
};

}  // namespace subquad

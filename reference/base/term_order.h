// In which order the plain program adds up the terms of a sum over keys.
//
// Where values cancel in pairs along the sequence, adding them as they come
// leaves every partial sum near zero and almost no error: luck, and no measure
// of programs that add up in other orders (a matrix product that takes even and
// odd terms apart, tiles). So the plain program's error is measured in another
// order too, and the larger one is the yardstick. The sums of a softmax
// (softmax_rows.h) and of kernelized attention, with and without positions,
// follow the order in force; all others come out the same.
#pragma once

#include <cstddef>

namespace subquad {

// On this thread, for as long as it lives, terms at even places come first.
class EvenTermsFirst {
 public:
  EvenTermsFirst() : outer_(on_) { on_ = true; }
  ~EvenTermsFirst() { on_ = outer_; }
  EvenTermsFirst(const EvenTermsFirst&) = delete;
  EvenTermsFirst& operator=(const EvenTermsFirst&) = delete;

  static bool On() { return on_; }

 private:
  inline static thread_local bool on_ = false;
  const bool outer_;
};

// Calls work(term) for each of `count` terms in the order in force.
template <typename Work>
void ForTerms(size_t count, const Work& work) {
  if (!EvenTermsFirst::On()) {
    for (size_t term = 0; term < count; ++term) work(term);
    return;
  }
  for (size_t first : {size_t{0}, size_t{1}})
    for (size_t term = first; term < count; term += 2) work(term);
}

}  // namespace subquad

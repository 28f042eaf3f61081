// The order in which the plain program adds up the terms of a sum over keys.
//
// If values cancel in pairs along the sequence, adding them in order leaves
// every partial sum near zero and causes almost no error. That is luck, and no
// measure for implementations that use other orders (a matrix product that
// separates even and odd terms, tiles). So the plain program's error is also
// measured in a second order, and the larger error is the baseline. The sums of
// a softmax (softmax_rows.h), of kernelized attention with and without
// positions, and of gradients over the rows of the outputs (derivative.cc)
// follow the selected order; all other results do not depend on it.
#pragma once

#include <cstddef>

namespace subquad {

// Puts the terms at even places first, on this thread and for its lifetime.
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

// Calls work(term) for each of `count` terms in the selected order.
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

// Mistakes of buckets of distances.
#include <algorithm>
#include <cmath>

#include "harness/judging/mistake.h"
#include "reference/base/max_distance.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/distance_buckets.h"

namespace subquad {
namespace {

// The parameters of a problem with buckets.
struct Buckets {
  explicit Buckets(const Problem& problem)
      : bidirectional(problem.params.Flag("bidirectional")),
        count(problem.Dim("B")),
        in_direction(bidirectional ? count / 2 : count),
        exact(in_direction / 2),
        max_distance(MaxDistanceOf(problem.params)) {}

  // Returns the bucket of an offset by a function of the place of its distance
  // among the buckets beyond the exact ones.
  template <typename Cut>
  int64_t Of(int64_t offset, const Cut& cut) const {
    const int64_t distance =
        bidirectional ? std::abs(offset) : std::max<int64_t>(-offset, 0);
    int64_t bucket = distance;
    if (distance >= exact) {
      const double place =
          std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
          std::log(static_cast<double>(max_distance) /
                   static_cast<double>(exact)) *
          static_cast<double>(in_direction - exact);
      bucket = std::min<int64_t>(in_direction - 1, exact + cut(place));
    }
    return bidirectional && offset > 0 ? bucket + in_direction : bucket;
  }

  bool bidirectional;
  int64_t count, in_direction, exact, max_distance;
};

// Adds the mistake of another bucket for each offset: a bias by offset with the
// entries of those.
template <typename BucketOf>
void TakeOtherBuckets(Subject& subject, const char* name,
                      const BucketOf& bucket_of) {
  const int64_t offset = QueryOffset(subject.problem.params);
  subject.Add(name, [=](AlteredProblem& altered) {
    const Problem& problem = altered.problem;
    const Tensor& table = altered.inputs["buckets"];
    Tensor bias;
    bias.name = "bias";
    bias.shape = table.shape;
    bias.shape.back() = problem.queries + problem.keys - 1;
    for (int64_t slice = 0; slice < table.slices.count(); ++slice)
      for (int64_t t = 0; t < bias.shape.back(); ++t)
        bias.values.push_back(
            table.Slice(slice)[bucket_of(t - (problem.queries - 1) - offset)]);
    altered.Give(std::move(bias), "buckets");
    Params params = problem.params;
    params.Erase("max_distance");
    params.Erase("bidirectional");
    altered.Resolve(std::move(params));
  });
}

}  // namespace

// Leaves buckets out, reads those of another head, or takes other buckets.
void MistakeBuckets(Subject& subject) {
  const Tensor* table = subject.Input("buckets");
  if (!table) return;
  subject.Add("buckets left out", [](AlteredProblem& altered) {
    std::ranges::fill(altered.Change("buckets").values, 0);
  });
  if (table->slices.count() > 1)
    subject.Add("buckets of another head", [](AlteredProblem& altered) {
      Tensor& changed = altered.Change("buckets");
      std::rotate(changed.values.begin(),
                  changed.values.begin() + changed.SliceSize(),
                  changed.values.end());
    });
  const Problem& problem = subject.problem;
  if (problem.params.Has("max_distance")) {
    Params params = problem.params;
    params.Erase("max_distance");
    subject.Add("the default max_distance instead of the given one", params);
  }
  // The bias of packed sequences has other entries.
  if (problem.backward || problem.params.Has("packed_q")) return;
  const Buckets buckets(problem);
  // A quotient on an edge may be computed a little too small or too large.
  constexpr double kRounding = 1e-9;
  const auto right = [](double place) {
    return static_cast<int64_t>(place + kRounding);
  };
  TakeOtherBuckets(
      subject,
      "distances on the edge of a bucket in the previous "
      "bucket",
      [=](int64_t offset) {
        return buckets.Of(offset, [](double place) {
          return std::max<int64_t>(
              0, static_cast<int64_t>(std::ceil(place - kRounding)) - 1);
        });
      });
  TakeOtherBuckets(subject, "buckets rounded instead of cut off",
                   [=](int64_t offset) {
                     return buckets.Of(offset, [](double place) {
                       return static_cast<int64_t>(std::round(place));
                     });
                   });
  TakeOtherBuckets(subject, "buckets of i - j for j - i",
                   [=](int64_t offset) { return buckets.Of(-offset, right); });
  if (const int64_t offset = QueryOffset(problem.params); offset != 0)
    TakeOtherBuckets(subject,
                     "buckets by the query's index and not by its position",
                     [=](int64_t from_position) {
                       return buckets.Of(from_position + offset, right);
                     });
}

}  // namespace subquad

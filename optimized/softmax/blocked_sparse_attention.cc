#include "optimized/softmax/blocked_sparse_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/softmax/softmax_tiles.h"
#include "optimized/softmax/sparse_parts.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// Queries first, first + stride, .. that process their keys together.
struct QueryGroup {
  int64_t first, stride, rows;
  int64_t last() const { return first + (rows - 1) * stride; }
};

// Groups the queries of a block, or neighbours in a residue class, `most` at a
// time.
std::vector<QueryGroup> GroupQueries(const SparseKeys& keys, int64_t most) {
  std::vector<QueryGroup> groups;
  const int64_t n = keys.queries();
  if (keys.InBlocks()) {
    const int64_t size = keys.block().queries;
    // Blocks of a local pattern begin at multiples of their size among the
    // positions, others among the queries as stored.
    const int64_t origin = keys.IsMasked() ? 0 : keys.Position(0);
    int64_t end = 0;
    for (int64_t block = 0; block < n; block = end) {
      end = std::min(n, (FloorOf(origin + block, size) + 1) * size - origin);
      for (int64_t first = block; first < end; first += most)
        groups.push_back({first, 1, std::min(most, end - first)});
    }
    return groups;
  }
  const int64_t step = keys.dilation();
  for (int64_t residue = 0; residue < std::min(step, n); ++residue) {
    const int64_t members = (n - 1 - residue) / step + 1;
    for (int64_t member = 0; member < members; member += most)
      groups.push_back(
          {residue + member * step, step, std::min(most, members - member)});
  }
  return groups;
}

// The keys begin, .. of a residue class of positions that a group of a window
// sees; `end` is at most `begin` if there are none. The group's first query is
// at the class's position `member`, which may have no key.
struct Band {
  Band(const SparseKeys& keys, const QueryGroup& group)
      : member(FloorOf(keys.Position(group.first), group.stride)),
        residue(keys.Position(group.first) - member * group.stride),
        after(keys.causal() ? 0 : keys.window()),
        begin(std::max<int64_t>(0, member - keys.window())),
        end(std::min(FloorOf(keys.keys() - 1 - residue, group.stride) + 1,
                     member + group.rows + after)) {}
  int64_t member, residue, after, begin, end;
};

template <typename T>
class BlockedSparse : public Prepared {
 public:
  BlockedSparse(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        keys_(problem),
        groups_(GroupQueries(keys_, kBlockQueries<T>)),
        arrays_(arrays),
        pool_(layout),
        blocks_(PartPerThread<SoftmaxBlock<T>>(layout, sizes_.d, sizes_.e)),
        seeing_q_(layout, SeeingAll() * sizes_.d),
        seeing_out_(layout, SeeingAll() * sizes_.e),
        global_k_(layout, Globals() * sizes_.d),
        global_v_(layout, Globals() * sizes_.e),
        first_step_(
            -FloorOf(sizes_.n_q - 1 + keys_.Position(0), keys_.dilation())),
        packed_bias_(layout, PackedBias()) {
    layout.Add(keys_.ListBytes() + layout.threads() * keys_.RunBytes() +
               static_cast<double>(groups_.size() * sizeof(QueryGroup)));
    for (int worker = 0; worker < layout.threads(); ++worker)
      runs_.emplace_back().reserve(static_cast<size_t>(keys_.MaxRuns()));
  }

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      const SparseHead<T> head(arrays_, sizes_, h);
      Pack(head);
      pool_.For(static_cast<int64_t>(groups_.size()),
                [&](int64_t index, int worker) {
                  RunGroup(head, groups_[static_cast<size_t>(index)], worker);
                });
      RunSeeingAll(head);
      RunApart(head);
    }
  }

  double Flops() const override {
    const double shared = static_cast<double>(Globals() + sizes_.apart);
    double pairs = static_cast<double>(SeeingAll()) *
                       static_cast<double>(sizes_.n_k) / (keys_.causal() + 1) +
                   static_cast<double>(sizes_.apart) *
                       static_cast<double>(keys_.all_keys());
    std::vector<KeyRun> runs;
    for (const QueryGroup& group : groups_) {
      double visible = shared;
      if (keys_.InBlocks()) {
        keys_.AllRuns<T>(group.first, nullptr, runs);
        for (const KeyRun& run : runs)
          visible += static_cast<double>(
              std::max<int64_t>(0, EndOf(run, group) - run.first));
      } else {
        const Band band(keys_, group);
        visible +=
            static_cast<double>(std::max<int64_t>(0, band.end - band.begin));
      }
      pairs += visible * static_cast<double>(group.rows);
    }
    return sizes_.Flops(pairs);
  }

 private:
  static constexpr T kHidden = -std::numeric_limits<T>::infinity();

  int64_t Globals() const {
    return static_cast<int64_t>(keys_.globals().size());
  }
  int64_t SeeingAll() const {
    return static_cast<int64_t>(keys_.seeing_all().size());
  }
  // The number of distances between a query's position and a key that are
  // multiples of the dilation: first_step_ and following ones times it.
  int64_t PackedBias() const {
    if (!sizes_.has_bias || keys_.dilation() == 1) return 0;
    const int64_t last =
        FloorOf(sizes_.n_k - 1 - keys_.Position(0), keys_.dilation());
    return std::max<int64_t>(0, last - first_step_ + 1);
  }

  void Pack(const SparseHead<T>& head) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const SparseRows<T>& rows = head.positions;
    for (int64_t g = 0; g < SeeingAll(); ++g)
      std::copy_n(rows.q + keys_.seeing_all()[static_cast<size_t>(g)] * d, d,
                  seeing_q_.data() + g * d);
    for (int64_t g = 0; g < Globals(); ++g) {
      const int64_t at = keys_.globals()[static_cast<size_t>(g)];
      std::copy_n(rows.k + at * d, d, global_k_.data() + g * d);
      std::copy_n(rows.v + at * e, e, global_v_.data() + g * e);
    }
    for (int64_t x = 0; x < PackedBias(); ++x)
      packed_bias_.data()[x] =
          head.bias[keys_.Position(0) + (first_step_ + x) * keys_.dilation()];
  }

  void RunGroup(const SparseHead<T>& head, const QueryGroup& group,
                int worker) {
    SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
    const SparseRows<T>& rows = head.positions;
    block.Begin(rows.q + group.first * sizes_.d, group.stride * sizes_.d,
                group.rows, scale_);
    if (keys_.InBlocks())
      AddBlocks(head, group, runs_[static_cast<size_t>(worker)], block);
    else
      AddBand(head, group, block);
    AddGlobalKeys(head, group, block);
    AddApart(head, block);
    block.End(rows.out + group.first * sizes_.e, group.stride * sizes_.e);
  }

  // Returns the end of the keys of a run that some query of the group sees.
  int64_t EndOf(const KeyRun& run, const QueryGroup& group) const {
    const int64_t end = run.first + run.count;
    return keys_.causal() ? std::min(end, keys_.Position(group.last()) + 1)
                          : end;
  }

  void AddBlocks(const SparseHead<T>& head, const QueryGroup& group,
                 std::vector<KeyRun>& runs, SoftmaxBlock<T>& block) {
    keys_.AllRuns(group.first, head.block_mask, runs);
    for (const KeyRun& run : runs) {
      const int64_t end = EndOf(run, group);
      for (int64_t j = run.first; j < end; j += kTileKeys) {
        block.Scores(head.positions.k + j * sizes_.d, sizes_.d,
                     std::min(kTileKeys, end - j));
        if (head.bias) block.AddBias(head.bias + j - group.first);
        if (keys_.causal()) block.HideAfter(keys_.Position(group.first) - j);
        block.Accumulate(head.positions.v + j * sizes_.e, sizes_.e);
      }
    }
  }

  void AddBand(const SparseHead<T>& head, const QueryGroup& group,
               SoftmaxBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const Band band(keys_, group);
    const bool is_packed = PackedBias() > 0;
    const T* const bias = is_packed ? packed_bias_.data() : head.bias;
    // Key b and the group's first query have the bias at origin + b.
    const int64_t origin =
        is_packed ? -band.member - first_step_ : -group.first;
    for (int64_t b = band.begin; b < band.end; b += kTileKeys) {
      const int64_t j = band.residue + b * group.stride;
      block.Scores(head.positions.k + j * d, group.stride * d,
                   std::min(kTileKeys, band.end - b));
      if (bias) block.AddBias(bias + origin + b);
      block.HideAfter(band.member - b + band.after);
      block.HideBefore(band.member - b - keys_.window());
      block.Accumulate(head.positions.v + j * e, group.stride * e);
    }
  }

  // Adds the global keys that the window did not include.
  void AddGlobalKeys(const SparseHead<T>& head, const QueryGroup& group,
                     SoftmaxBlock<T>& block) {
    const auto hide = [&](int64_t key, int64_t from, int64_t to) {
      from = std::max<int64_t>(0, from);
      to = std::min(group.rows, to);
      if (from < to) std::fill_n(&block.Score(from, key), to - from, kHidden);
    };
    for (int64_t g = 0; g < Globals(); g += kTileKeys) {
      const int64_t count = std::min(kTileKeys, Globals() - g);
      block.Scores(global_k_.data() + g * sizes_.d, sizes_.d, count);
      for (int64_t x = 0; x < count; ++x) {
        const int64_t gap =
            keys_.globals()[static_cast<size_t>(g + x)] - group.first;
        for (int64_t i = 0; head.bias && i < group.rows; ++i)
          block.Score(i, x) += head.bias[gap - i * group.stride];
        if (keys_.causal() && gap > 0)
          hide(x, 0, (gap + group.stride - 1) / group.stride);
        if (gap % group.stride == 0)
          hide(x, gap / group.stride - keys_.window(),
               gap / group.stride + keys_.window() + 1);
      }
      block.Accumulate(global_v_.data() + g * sizes_.e, sizes_.e);
    }
  }

  void AddApart(const SparseHead<T>& head, SoftmaxBlock<T>& block) {
    for (int64_t g = 0; g < sizes_.apart; g += kTileKeys) {
      block.Scores(head.apart.k + g * sizes_.d, sizes_.d,
                   std::min(kTileKeys, sizes_.apart - g));
      block.Accumulate(head.apart.v + g * sizes_.e, sizes_.e);
    }
  }

  // Overwrites the output that the groups wrote for these queries.
  void RunSeeingAll(const SparseHead<T>& head) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const IntegerList& seeing = keys_.seeing_all();
    pool_.For(
        (SeeingAll() + kBlockQueries<T> - 1) / kBlockQueries<T>,
        [&](int64_t index, int worker) {
          SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
          const int64_t g = index * kBlockQueries<T>;
          const int64_t rows = std::min(kBlockQueries<T>, SeeingAll() - g);
          const int64_t* at = seeing.data() + g;  // in ascending order
          const int64_t end = keys_.causal() ? at[rows - 1] + 1 : sizes_.n_k;
          block.Begin(seeing_q_.data() + g * d, d, rows, scale_);
          for (int64_t j = 0; j < end; j += kTileKeys) {
            const int64_t keys = std::min(kTileKeys, end - j);
            block.Scores(head.positions.k + j * d, d, keys);
            for (int64_t x = 0; x < keys; ++x) {
              for (int64_t i = 0; head.bias && i < rows; ++i)
                block.Score(i, x) += head.bias[j + x - at[i]];
              if (keys_.causal())
                std::fill_n(&block.Score(0, x),
                            std::lower_bound(at, at + rows, j + x) - at,
                            kHidden);
            }
            block.Accumulate(head.positions.v + j * e, e);
          }
          T* out = seeing_out_.data() + g * e;
          block.End(out, e);
          for (int64_t i = 0; i < rows; ++i)
            std::copy_n(out + i * e, e, head.positions.out + at[i] * e);
        });
  }

  void RunApart(const SparseHead<T>& head) {
    const int64_t d = sizes_.d, e = sizes_.e;
    pool_.For((sizes_.apart + kBlockQueries<T> - 1) / kBlockQueries<T>,
              [&](int64_t index, int worker) {
                SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
                const int64_t g = index * kBlockQueries<T>;
                block.Begin(head.apart.q + g * d, d,
                            std::min(kBlockQueries<T>, sizes_.apart - g),
                            scale_);
                for (int64_t j = 0; j < sizes_.n_k; j += kTileKeys) {
                  block.Scores(head.positions.k + j * d, d,
                               std::min(kTileKeys, sizes_.n_k - j));
                  block.Accumulate(head.positions.v + j * e, e);
                }
                AddApart(head, block);
                block.End(head.apart.out + g * e, e);
              });
  }

  const SparseSizes sizes_;
  const T scale_;
  const SparseKeys keys_;
  const std::vector<QueryGroup> groups_;
  const Arrays arrays_;
  ThreadPool pool_;
  std::vector<SoftmaxBlock<T>> blocks_;
  std::vector<std::vector<KeyRun>> runs_;
  Buffer<T> seeing_q_, seeing_out_;  // of the queries that see everything
  Buffer<T> global_k_, global_v_;
  const int64_t first_step_;
  Buffer<T> packed_bias_;  // of distances that are multiples of the dilation
};

}  // namespace

std::unique_ptr<Prepared> PrepareBlockedSparse(const Problem& problem,
                                               const Arrays& arrays,
                                               Layout& layout) {
  return PrepareFor<BlockedSparse>(problem, arrays, layout);
}

}  // namespace subquad

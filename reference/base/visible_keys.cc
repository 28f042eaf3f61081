#include "reference/base/visible_keys.h"

#include <numeric>

namespace subquad {
namespace {

const IntegerList* ListOf(const Params& params, const std::string& name) {
  return params.Has(name) ? &params.List(name) : nullptr;
}

// Throws unless there are as many entries as sequences.
void CheckCount(const std::string& name, size_t sequences, size_t found) {
  if (found != sequences)
    throw InvalidInput("parameter " + name,
                       "an entry for each of the " + std::to_string(sequences) +
                           " sequences of packed_q",
                       std::to_string(found));
}

void CheckSum(const std::string& name, const IntegerList& lengths,
              int64_t expected, const char* what) {
  const int64_t sum =
      std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (sum != expected)
    throw InvalidInput("parameter " + name,
                       "lengths with the sum " + std::to_string(expected) +
                           ", the number of " + what,
                       std::to_string(sum) +
                           (lengths.size() == 1 ? " in a single length (on the "
                                                  "command line, + joins "
                                                  "lengths: 32+32)"
                                                : ""));
}

}  // namespace

std::vector<Sequence> SequencesOf(const Params& params, int64_t queries,
                                  int64_t keys) {
  const IntegerList* packed_q = ListOf(params, "packed_q");
  const IntegerList* packed_k = ListOf(params, "packed_k");
  if (!packed_q != !packed_k)
    throw InvalidInput(
        std::string("parameter ") + (packed_q ? "packed_k" : "packed_q"),
        std::string("a list beside ") + (packed_q ? "packed_q" : "packed_k"),
        "none");
  const ParamValue* given = nullptr;
  if (params.Has("query_offset")) given = &params.values().at("query_offset");
  const IntegerList* offsets =
      given ? std::get_if<IntegerList>(given) : nullptr;
  if (!packed_q) {
    if (offsets)
      throw InvalidInput("parameter query_offset",
                         "an integer, as there is no packed_q",
                         ToString(*given));
    return {{0, queries, 0, keys, QueryOffset(params)}};
  }
  if (params.Has("key_lengths"))
    throw InvalidInput("parameter key_lengths", "none beside packed_k", "both");
  CheckCount("packed_k", packed_q->size(), packed_k->size());
  if (offsets) CheckCount("query_offset", packed_q->size(), offsets->size());
  CheckSum("packed_q", *packed_q, queries, "queries");
  CheckSum("packed_k", *packed_k, keys, "keys");
  std::vector<Sequence> sequences;
  Sequence next;
  for (size_t s = 0; s < packed_q->size(); ++s) {
    next.queries = (*packed_q)[s];
    next.keys = (*packed_k)[s];
    next.offset = offsets ? (*offsets)[s] : QueryOffset(params);
    sequences.push_back(next);
    next.first_query += next.queries;
    next.first_key += next.keys;
  }
  return sequences;
}

OffsetRange OffsetsOf(const std::vector<Sequence>& sequences) {
  OffsetRange range{-kMaxInteger, -kMaxInteger};
  for (const Sequence& s : sequences) {
    range.before = std::max(range.before, s.queries - 1 + s.offset);
    range.after = std::max(range.after, s.keys - 1 - s.offset);
  }
  return range;
}

}  // namespace subquad

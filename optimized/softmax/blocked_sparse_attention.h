// sparse_attention in groups of up to 64 queries that see nearly the same keys,
// against tiles of these keys (softmax_tiles.h), with masked edges.
//
// Patterns of blocks: the queries of a block, against the blocks that it sees,
// read from the row of a block mask if there is one.
// Windows: a dilated window is one dense band for each residue of positions
// modulo the dilation; its biases are `dilation` apart, and are packed. Queries
// that see everything are computed with all keys at the end, overwriting the
// output of their groups; keys that all queries see are packed and added to
// each group. So are the global tokens of etc, which are separate rows already.
#pragma once

#include <memory>

#include "reference/contract/implementation.h"

namespace subquad {

std::unique_ptr<Prepared> PrepareBlockedSparse(const Problem& problem,
                                               const Arrays& arrays,
                                               Layout& layout);

}  // namespace subquad

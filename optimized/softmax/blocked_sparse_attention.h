// sparse_attention in groups of up to 64 queries that see nearly the same keys,
// against tiles of these (softmax_tiles.h), edges masked.
//
// Patterns of blocks: the queries of a block, against the blocks that it sees.
// Windows: a dilated window is one dense band for each residue of positions
// modulo the dilation; its biases stand `dilation` apart, and are packed.
// Queries that see everything go through all keys at the end, over what their
// groups wrote for them; keys that all see are packed and added to each group.
// So are the global tokens of etc, which are rows of their own already.
#pragma once

#include <memory>

#include "reference/contract/implementation.h"

namespace subquad {

std::unique_ptr<Prepared> PrepareBlockedSparse(const Problem& problem,
                                               const Arrays& arrays,
                                               Layout& layout);

}  // namespace subquad

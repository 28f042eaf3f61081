// Claims that studies answer. The verdict in a study's file is not believed:
// the study's own rule judges the tables of the file again.
#pragma once

#include <string>

#include "harness/papers/frame/evidence.h"
#include "harness/papers/frame/finding.h"
#include "harness/papers/frame/study.h"

namespace subquad {

// What the study's rule says of a claim, of every file of the study. With other
// settings than the full ones a verdict is no more than a hint.
Finding FromStudies(const Evidence& evidence, const Study& study,
                    const std::string& claim);

}  // namespace subquad

#include "tests/places.h"

namespace subquad {

const char kSourceFolder[] = SUBQUAD_SOURCE;
const char kGoldenFolder[] = SUBQUAD_SOURCE "/tests/golden";
const char kProgramFile[] = SUBQUAD_EXECUTABLE;

}  // namespace subquad

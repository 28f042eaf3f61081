// What each text claims, one list a paper, in the order of the text; and the
// forms that most entries have.
#pragma once

#include <string>
#include <vector>

#include "harness/papers/claims/claim.h"

namespace subquad {

std::vector<Claim> FastRpbClaims();
std::vector<Claim> LrpeClaims();
std::vector<Claim> NprfClaims();
std::vector<Claim> TransformerXlClaims();
std::vector<Claim> TransformersIiClaims();

// A claim that a study's verdict answers: the one of the same name, unless
// another is named.
Claim OfStudy(const std::string& id, const std::string& says,
              const std::string& source, const std::string& study,
              const std::string& verdict = "");

// A claim that a study comes near and cannot answer either: its file says what
// was found instead, and without it there is the reason.
Claim BesideStudy(const std::string& id, const std::string& says,
                  const std::string& source, const std::string& study,
                  const std::string& reason);

// A claim that nothing here can test, and why.
Claim Untested(const std::string& id, const std::string& says,
               const std::string& source, const std::string& reason);

// Reasons that several claims share.
namespace untested {
inline constexpr const char* kTraining =
    "needs models trained on the paper's data; nothing is trained here";
inline constexpr const char* kTrainedModels =
    "needs whole models; single operators are measured here";
inline constexpr const char* kGpu = "needs a GPU; none was available";
inline constexpr const char* kNoOperator = "there is no operator for it here";
inline constexpr const char* kSetting =
    "a choice of the authors that claims nothing to test";
inline constexpr const char* kDrawsGiven =
    "random matrices are inputs here; drawing them is in no measured time";
}  // namespace untested

}  // namespace subquad

#!/bin/sh
# Builds tests/harness/cases/fuzz_case.cc with clang++ and runs it on the golden cases.
#   tests/harness/cases/fuzz_case.sh FOLDER [LIBFUZZER OPTION..]     FOLDER keeps the corpus
set -eu
folder=${1:?usage: tests/harness/cases/fuzz_case.sh FOLDER [LIBFUZZER OPTION..]}
shift
cd "$(dirname "$0")/../../.."
mkdir -p "$folder/corpus"
# The registry names every algorithm, so all of optimized/ is linked in.
flags="-std=c++20 -g -O1 -I. $(pkg-config --cflags eigen3 libhwy) -DHWY_SHARED_DEFINE -DEIGEN_DONT_PARALLELIZE"
if [ ! -x "$folder/fuzz_case" ]; then
  for source in $(find optimized -name '*.cc'); do
    clang++ $flags -w -O0 -c "$source" -o "$folder/$(echo "$source" | tr / _).o"
  done
  clang++ $flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    tests/harness/cases/fuzz_case.cc harness/base/npy.cc harness/base/npy_header.cc harness/registry/registry.cc \
    reference/base/*.cc reference/contract/*.cc harness/cases/*.cc "$folder"/*.cc.o \
    -lfmt $(pkg-config --libs fftw3 fftw3f libhwy) -lpthread -o "$folder/fuzz_case"
fi
for golden in tests/golden/*/case.json; do
  name=$(basename "$(dirname "$golden")")
  { printf '\002\005\003\002\005\003\001\011'; cat "$golden"; } > "$folder/corpus/$name"
done
exec "$folder/fuzz_case" -malloc_limit_mb=64 -rss_limit_mb=2048 \
  -artifact_prefix="$folder/" "$@" "$folder/corpus"

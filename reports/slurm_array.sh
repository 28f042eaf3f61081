#!/usr/bin/env bash
# A sweep as a Slurm job array: K tasks, each one shard of the cases, then one
# result file. From the root of the repository, after a build:
#
#   sbatch --array=1-K --exclusive reports/slurm_array.sh K DIR --preset paper
#   reports/slurm_array.sh merge K DIR
#
# All after DIR are options of `subquad sweep` (not --out, --shard,
# --resume, --force).
# A task that was killed or ran out of time goes on where it stopped when it is
# submitted again with the same K, DIR and options:
#
#   sbatch --array=3,7 --exclusive reports/slurm_array.sh K DIR --preset paper
#
# SUBQUAD names another executable than build/subquad. DIR is on a file system
# that all nodes share. Use nodes of one kind (--constraint, --partition): times
# of different processors are not compared.
set -euo pipefail

refuse() {
  echo "slurm_array.sh: $*" >&2
  exit 2
}

shards() {
  [[ $1 =~ ^[1-9][0-9]*$ ]] || refuse "expected a number of shards, found '$1'"
}

program=${SUBQUAD:-build/subquad}
if [[ ${1:-} == -h || ${1:-} == --help || $# -eq 0 ]]; then
  sed -n '2,18s/^# \{0,1\}//p' "$0"
  exit 0
fi
[[ -x $program ]] || refuse "no executable $program; build it, or set SUBQUAD"

if [[ $1 == merge ]]; then
  [[ $# -eq 3 ]] || refuse "expected merge K DIR"
  count=$2 folder=$3
  shards "$count"
  files=() missing=()
  for ((i = 1; i <= count; ++i)); do
    # Ended by itself: an interrupted shard leaves a file too, with less in it.
    if [[ -e $folder/shard-$i.done ]]; then
      files+=("$folder/shard-$i.json")
    else
      missing+=("$i")
    fi
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    list=$(IFS=,; echo "${missing[*]}")
    echo "slurm_array.sh: not finished: submit again with --array=$list" >&2
    exit 1
  fi
  # Made from these shards alone, so a newer one may replace it.
  exec "$program" merge "${files[@]}" --out "$folder/merged.json" --force
fi

count=$1
shards "$count"
[[ $# -ge 2 ]] || refuse "expected K DIR and the options of a sweep"
folder=$2
shift 2
for option in "$@"; do
  case $option in
    --out|--out=*|--shard|--shard=*|--resume|--force) refuse "$option does not go with this script" ;;
  esac
done
task=${SLURM_ARRAY_TASK_ID:-}
[[ -n $task ]] || refuse "SLURM_ARRAY_TASK_ID is not set; submit with sbatch --array=1-$count"
shards "$task"
((task <= count)) || refuse "task $task of $count shards; submit with --array=1-$count"

mkdir -p "$folder"
# Another sweep's shards must not be mixed with these.
plan=$folder/plan
printf '%s\n' "$count" "$@" > "$plan.$task"
if ln "$plan.$task" "$plan" 2>/dev/null || cmp -s "$plan.$task" "$plan"; then
  rm -f "$plan.$task"
else
  rm -f "$plan.$task"
  refuse "$folder holds another sweep: $(tr '\n' ' ' < "$plan")"
fi

shard=$folder/shard-$task
rm -f "$shard.done"
"$program" sweep "$@" --shard "$task/$count" --out "$shard.json" --resume &
child=$!
# Slurm's warning before the time limit: the sweep keeps what it has.
trap 'kill -TERM "$child" 2>/dev/null || true' TERM INT
code=0
wait "$child" || code=$?
while kill -0 "$child" 2>/dev/null; do
  code=0
  wait "$child" || code=$?
done
# 1: a check failed, which is a result.
if [[ $code -le 1 ]]; then echo "$code" > "$shard.done"; fi
exit "$code"

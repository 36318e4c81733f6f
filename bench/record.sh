#!/usr/bin/env bash
# Records what bench/results holds of one kind of machine: noise, starts, answers, and the probe beside `vllm bench serve`.
# Every step ends by a limit of its own, prints as it goes, and leaves its file.
#
#   PYTHONPATH=operator TARGET=DIR WORK=DIR OUT=DIR bench/record.sh h200 starts serve answers
#   PYTHONPATH=operator TARGET=DIR WORK=DIR OUT=DIR ENGINE='python -m paceline.stages.cpu.engine' \
#     bench/record.sh cpu beside speculating answers starts
#
# Run it at the repository's root, with vLLM in $PYTHON's environment.
set -uo pipefail

kind=$1; shift
: "${TARGET:?the folder of the checkpoint}" "${WORK:?a folder for logs and caches}" "${OUT:?a folder for the recordings}"
PYTHON=${PYTHON:-python3} ENGINE=${ENGINE:-vllm} PORT=${PORT:-8100}
mkdir -p "$WORK" "$OUT"
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1

case $kind in
  h200)
    machine="H200, vLLM 0.26.0, SmolLM2-135M enlarged to 6.74B"
    args='--max-model-len=2048 --gpu-memory-utilization=0.15 --kv-cache-memory-bytes=2147483648 --max-num-seqs=64'
    bands=(1 8 32 64) load=(--requests-per-slot 6 --max-tokens 96) rounds=4 starts=4 rounds_a_start=2 start_limit=440
    served=(8 32) asked=(4 16 64) prompts=96 tokens=96 pair=(none none ngram3 lossy3) pair_asked=(0 0 1 2 3) heats=(0.3 1)
    ;;
  cpu)
    machine="2 CPU cores, vLLM 0.32.0, SmolLM2-135M"
    args='--max-model-len=1024'
    bands=(1 4 8) load=(--requests-per-slot 2 --max-tokens 24) rounds=2 starts=4 rounds_a_start=1 start_limit=400
    served=(4 8) asked=(8) prompts=24 tokens=24 pair=(none ngram3) pair_asked=(0 0 1) heats=(0.5)
    ;;
  *) echo "$kind is neither h200 nor cpu" >&2; exit 2 ;;
esac
wait_s=300
# For a rehearsal beside other work: fewer of everything, and patience.
if [ -n "${TINY:-}" ]; then
  load=(--requests-per-slot 2 --max-tokens 8) rounds=1 starts=2 rounds_a_start=1 prompts=8 tokens=24 repeats=2 wait_s=1200
fi

say() { echo "[$(date +%H:%M:%S)] $*"; }
record() {
  local limit=$1 code=0; shift
  timeout "$limit" "$PYTHON" -m "bench.$@" || { code=$?; say "$1 ended with $code"; }
  return $code
}
up() {
  down
  record 60 serving up --target "$TARGET" --work "$WORK" --arms "$@" --port "$PORT" --engine "$ENGINE" \
    --engine-args="$args" || return
  record $((wait_s + 10)) serving wait --work "$WORK" --limit "$wait_s" || true
}
down() { if [ -e "$WORK/arms.json" ]; then record 120 serving down --work "$WORK"; fi; }
up_pair() { if [ ! -e "$WORK/arms.json" ]; then up "${pair[@]}"; fi; }
trap down EXIT

# The first are one template's, on which looking up n-grams pays; the second of many kinds.
"$PYTHON" -c 'from demo import workload as w; print(w.json_lines(w.in_domain(240)), end="")' > "$WORK/prompts.jsonl"
"$PYTHON" -c 'from demo import workload as w; print(w.json_lines(w.in_domain(48) + w.out_of_domain(48)), end="")' \
  > "$WORK/mixed.jsonl"

blocks=(--work "$WORK" --prompts "$WORK/prompts.jsonl" --concurrency "${bands[@]}" "${load[@]}")

for step in "$@"; do
  say "$step"
  case $step in
    beside)  # two starts, and one of them against itself: A B C C B A
      up none none || continue
      record 900 record_noise beside "${blocks[@]}" --arms 1 0 0 --rounds "$rounds" --model "$TARGET" \
        --about "$machine; two starts without speculation, and one of them against itself" --out "$OUT/$kind-noise-equal.json"
      down
      ;;
    speculating)
      up none ngram3 || continue
      record 900 record_noise beside "${blocks[@]}" --arms 1 0 --rounds "$rounds" --model "$TARGET" \
        --about "$machine; n-gram, 3 tokens, against no speculation" --out "$OUT/$kind-noise-ngram.json"
      ;;
    starts)  # one after the other, each alone
      down
      record 560 record_noise starts "${blocks[@]}" --arms none --starts "$starts" --rounds "$rounds_a_start" \
        --limit "$start_limit" --target "$TARGET" --port "$PORT" --engine "$ENGINE" --engine-args="$args" \
        --about "$machine; starts without speculation, one after the other, caches cold" --out "$OUT/$kind-noise-starts.json"
      ;;
    starts-ngram)
      down
      record 560 record_noise starts "${blocks[@]}" --arms ngram3 --starts "$starts" --rounds "$rounds_a_start" \
        --limit "$start_limit" --target "$TARGET" --port "$PORT" --engine "$ENGINE" --engine-args="$args" \
        --about "$machine; starts with n-gram, 3 tokens, one after the other, caches cold" \
        --out "$OUT/$kind-noise-starts-ngram.json"
      ;;
    serve)  # does the probe agree with vllm bench serve on a server that speculates?
      up_pair || continue
      url=$("$PYTHON" -c 'import sys, pathlib; from bench import serving
print(next(one.url for one in serving.read(pathlib.Path(sys.argv[1])) if one.name == "ngram=3"))' "$WORK")
      record 300 bench_serve --url "$url" --model "$TARGET" --tokenizer "$TARGET" --prompts "$WORK/prompts.jsonl" \
        --concurrency "${served[@]}" "${load[@]}" --repeats "${repeats:-10}" --about "$machine; n-gram, 3 tokens" \
        --out "$OUT/$kind-bench-serve-ngram.json"
      ;;
    answers)  # the same greedy requests to the control twice, to another start, and to servers that speculate
      up_pair || continue
      record 420 record_answers --work "$WORK" --arms "${pair_asked[@]}" --sampled "${heats[@]}" --model "$TARGET" \
        --prompts "$WORK/mixed.jsonl" --max-prompts "$prompts" --concurrency "${asked[@]}" --max-tokens "$tokens" \
        --about "$machine; the control twice, then others; the prompts are of 7 kinds" --out "$OUT/$kind-answers.json"
      ;;
    *) say "there is no step $step"; exit 2 ;;
  esac
done

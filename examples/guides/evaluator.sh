#!/bin/sh
# Compare one checkpoint under several inference vocabularies. Run it in a workspace with runs/latest
# and tasks/ (see docs/evaluation.md; `modtok eval fetch` downloads it).
set -eu
mkdir -p results

# Each language with its own subtokenizer, then with the whole vocabulary.
modtok eval mcq --infer lang --examples results/lang.examples > results/mcq-lang.jsonl
modtok eval mcq --infer full --examples results/full.examples > results/mcq-full.jsonl

# Test the difference by paired bootstrap over the same questions.
modtok eval compare results/lang.examples results/full.examples

# Translation with the union of both languages, and with each side's own; summaries in French.
modtok eval mt --pairs en-fr --infer src+tgt --limit "${LIMIT:-100}" > results/mt.jsonl
modtok eval mt --pairs en-fr --infer 'src|tgt' --limit "${LIMIT:-100}" > results/mt-crossed.jsonl
modtok eval sum --langs fr --limit "${LIMIT:-100}" > results/sum.jsonl
modtok report -o report.html --force

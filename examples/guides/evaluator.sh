#!/bin/sh
# For who evaluates: one checkpoint under several inference vocabularies, compared.
# Run it in a workspace with runs/latest and tasks/ (docs/evaluation.md says how it is laid out;
# `modtok eval fetch` writes it where the hub can be reached).
set -eu
mkdir -p results

# Each language by its own subtokenizer, and by the whole vocabulary.
modtok eval mcq --infer lang --examples results/lang.examples > results/mcq-lang.jsonl
modtok eval mcq --infer full --examples results/full.examples > results/mcq-full.jsonl

# Is the difference one? A paired bootstrap over the same questions.
modtok eval compare results/lang.examples results/full.examples

# Translation: both languages together, or crossed. Summaries in French.
modtok eval mt --pairs en-fr --infer src+tgt --limit "${LIMIT:-100}" > results/mt.jsonl
modtok eval mt --pairs en-fr --infer 'src|tgt' --limit "${LIMIT:-100}" > results/mt-crossed.jsonl
modtok eval sum --langs fr --limit "${LIMIT:-100}" > results/sum.jsonl
modtok report -o report.html --force

#!/bin/sh
# The main job on the sample text, step by step: sh examples/demo.sh [DIRECTORY]
# Every line after a "$" is the very command that runs. `make demo` calls this.
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
workspace=${1:-demo}

say() {
    printf '\n'
    printf '%s\n' "$@"
}

run() {
    printf '\n  $ %s\n\n' "$1"
    sh -c "$1"
}

rm -rf "$workspace"
mkdir -p "$workspace"
cp -R "$examples/sample/data" "$examples/sample/parallel" "$workspace"
cd "$workspace"

say "Six languages in three scripts: Greek, English, Finnish, French, Nepali, Swahili." \
    "$workspace/data has a little text of each to learn from, $workspace/parallel has" \
    "the same 114 lines in each to measure on. The first command only compiles what the" \
    "others need; that happens once after an installation."
run "modtok warmup"

say "1. Learn one modular tokenizer. Each language gets 1,500 tokens: it adopts tokens of" \
    "   the languages before it where they serve it, and adds its own. 'total' is the size" \
    "   of the whole vocabulary so far; in the end it is below six times 1,500."
run "modtok bpe-seq --langs el,en,fi,fr,ne,sw -k 1500"

say "2. Take the tokenizer of French and English out of it, as an ordinary tokenizer.json" \
    "   that other programs load, and measure it. NSL compares its number of tokens with" \
    "   that of a tokenizer learned for one language alone: 1.000 is as good. French and" \
    "   English are served; Finnish, which was not asked for, would cost far more."
run "modtok extract --langs fr,en | modtok nsl parallel/en.txt parallel/fr.txt parallel/fi.txt"

say "3. The same for every language: the whole vocabulary, then each language's own subset" \
    "   ('each'), a fraction of its size."
run "modtok nsl -t tokenizer -t tokenizer@each parallel"

say "4. What a tokenizer does to a word. Finnish, by its own tokens and by the English ones:"
run "printf 'Kirjastossa luettiin sanomalehteä.\n' | modtok encode --langs fi --tokens"
run "printf 'Kirjastossa luettiin sanomalehteä.\n' | modtok encode --langs en --tokens"

say "5. Prove that the tokenizer, every language of it and random sets of languages are" \
    "   sound: every merge has its parts, every token is reached by encoding its own text."
run "modtok inspect --check"

say "Everything lies in $workspace: the tokenizer in $workspace/tokenizer. Try it from there:" \
    "    cd $workspace" \
    "    modtok extract --langs ne -o nepali.json" \
    "    modtok inspect --find '^ the'" \
    "The sample is tiny, so the figures say nothing about other text; see README.md."

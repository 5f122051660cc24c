#!/bin/sh
# All of modtok on the sample text, step by step: sh examples/demo.sh [DIRECTORY]
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
mkdir -p "$workspace/results"
cp -R "$examples/sample/data" "$examples/sample/parallel" "$examples/sample/tasks" "$workspace"
cd "$workspace"

say "Six languages in three scripts: Greek, English, Finnish, French, Nepali, Swahili." \
    "$workspace/data has a little text of each to learn from, $workspace/parallel the same" \
    "114 lines in each to measure on, $workspace/tasks questions to answer. The first command" \
    "only compiles what the others need; that happens once after an installation."
run "modtok warmup"

say "1. LEARN one modular tokenizer. Each language gets 1,500 tokens: it adopts tokens of" \
    "   the languages before it where they serve it, and adds its own. 'total' is the size" \
    "   of the whole vocabulary so far; in the end it is below six times 1,500."
run "modtok bpe-seq --langs el,en,fi,fr,ne,sw -k 1500"

say "2. TAKE the tokenizer of French and English out of it, as an ordinary tokenizer.json" \
    "   that other programs load, and measure it. NSL compares its number of tokens with" \
    "   that of a tokenizer learned for one language alone: 1.000 is as good. French and" \
    "   English are served; Finnish, which was not asked for, would cost far more."
run "modtok extract --langs fr,en | modtok nsl parallel/en.txt parallel/fr.txt parallel/fi.txt"

say "3. WHY NOT simply join two tokenizers? Learn French and English apart, append one to the" \
    "   other, and compare: the merges of the first block tokens of the second, and English" \
    "   pays for it. What is taken out of the modular tokenizer pays nothing."
run "modtok bpe --langs en,fr -k 1500 -o alone -q > results/alone.jsonl"
run "modtok bpe-concat alone/fr.json alone/en.json -o joined.json -q"
run "modtok nsl -t joined.json -t tokenizer@en,fr parallel/en.txt parallel/fr.txt --plot - \\
        > results/joined.jsonl"

say "4. MEASURE every language: the whole vocabulary, then each language's own subset ('each')," \
    "   a sixth of its size. The rows are kept for the report."
run "modtok nsl -t tokenizer -t tokenizer@each parallel --plot - > results/nsl.jsonl"
run "modtok inspect --check"

say "5. PRETRAIN a tiny model (0.7 million parameters and the rows of the vocabulary). Every" \
    "   batch is one language, cut by its own tokens or, half the time, by its own and those of" \
    "   two others drawn for that batch. Only the rows in use are computed and updated. The text" \
    "   is so little that the model soon knows it by heart: held-out bits per byte rise again."
run "modtok pretrain --sampling sub:2 --mix en=0.3 --steps 200 --eval-every 20"

say "6. EVALUATE it on multiple choice, every language with its own subtokenizer: how does a" \
    "   sentence of the text go on (guessing: 25), and what does the text say (guessing: 33)?"
run "modtok eval mcq --plot - > results/mcq.jsonl"

say "7. SLICE it to French and English: a directory that transformers opens as it is, with the" \
    "   rows of two languages in place of six."
run "modtok slice --langs fr,en -o fr-en"

say "8. GENERATE from the slice, and from the whole run with the language chosen by the prompt."
run "printf '{\"prompt\": \"The baker\"}\n{\"prompt\": \"La petite ville\"}\n' \\
        | modtok generate --run fr-en --max-tokens 24 | tee results/generated.jsonl"
run "modtok generate --langs auto --max-tokens 24 'Kirjastossa luettiin'"

say "9. LOOK at all of it on one page."
run "modtok report -o report.html"

say "Open $workspace/report.html. Everything lies in $workspace; try it from there:" \
    "    cd $workspace" \
    "    modtok extract --langs ne -o nepali.json" \
    "    modtok inspect --find '^ the'" \
    "    modtok memory --run runs/latest" \
    "    modtok generate --langs sw 'Mwalimu'" \
    "The sample is tiny, so the figures say nothing about other text; see README.md."

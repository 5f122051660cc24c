#!/bin/sh
# Run every step of modtok on the sample text: sh examples/demo.sh [DIRECTORY]
# Lines after "$" are the commands as they run. `make demo` calls this script.
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
    "$workspace/data has text to learn from, $workspace/parallel the same 114 lines in each" \
    "language to measure on, $workspace/tasks questions for the evaluation. The first command" \
    "compiles kernels, once per installation."
run "modtok warmup"

say "1. LEARN a modular tokenizer. Each language gets 1,500 tokens: it adopts useful tokens of" \
    "   earlier languages and adds its own. 'total' is the size of the whole vocabulary so far;" \
    "   in the end it is smaller than six times 1,500, because languages share tokens."
run "modtok bpe-seq --langs el,en,fi,fr,ne,sw -k 1500"

say "2. EXTRACT the tokenizer of French and English, a tokenizer.json that other programs" \
    "   load, and measure it. NSL is the number of tokens relative to a tokenizer learned for" \
    "   the language alone; lower is better. French and English are near 1. Finnish, which is" \
    "   not in the subset, is much higher."
run "modtok extract --langs fr,en | modtok nsl parallel/en.txt parallel/fr.txt parallel/fi.txt"

say "3. COMPARE with naive concatenation: learn French and English separately and append one" \
    "   to the other. Merges of the first block tokens of the second, so English gets longer." \
    "   The subset of the modular tokenizer does not."
run "modtok bpe --langs en,fr -k 1500 -o alone -q > results/alone.jsonl"
run "modtok bpe-concat alone/fr.json alone/en.json -o joined.json -q"
run "modtok nsl -t joined.json -t tokenizer@en,fr parallel/en.txt parallel/fr.txt --plot - \\
        > results/joined.jsonl"

say "4. MEASURE every language with the whole vocabulary, and with its own subtokenizer ('each')," \
    "   about a sixth of the size. The rows are stored for the report."
run "modtok nsl -t tokenizer -t tokenizer@each parallel --plot - > results/nsl.jsonl"
run "modtok inspect --check"

say "5. PRETRAIN a tiny model (0.7 million parameters and the embedding rows). Each batch is one" \
    "   language, tokenized with its own subtokenizer or, half of the time, with the union of it" \
    "   and two other languages. Only active rows are computed and updated. The model memorizes" \
    "   this little text quickly, so held-out bits per byte rise after their minimum."
run "modtok pretrain --sampling sub:2 --mix en=0.3 --steps 200 --eval-every 20"

say "6. EVALUATE it on multiple choice, each language with its own subtokenizer: continuations" \
    "   of sentences (guessing gives 25) and questions on the text (guessing gives 33)."
run "modtok eval mcq --plot - > results/mcq.jsonl"

say "7. SLICE it to French and English: a directory that transformers opens, with the rows of" \
    "   two languages instead of six."
run "modtok slice --langs fr,en -o fr-en"

say "8. GENERATE from the slice, then from the whole run with the language found by the prompt."
run "printf '{\"prompt\": \"The baker\"}\n{\"prompt\": \"La petite ville\"}\n' \\
        | modtok generate --run fr-en --max-tokens 24 | tee results/generated.jsonl"
run "modtok generate --langs auto --max-tokens 24 'Kirjastossa luettiin'"

say "9. REPORT everything on one page."
run "modtok report -o report.html"

say "Open $workspace/report.html. All files are in $workspace; try more from there:" \
    "    cd $workspace" \
    "    modtok extract --langs ne -o nepali.json" \
    "    modtok inspect --find '^ the'" \
    "    modtok memory --run runs/latest" \
    "    modtok generate --langs sw 'Mwalimu'" \
    "The sample is tiny: these measurements do not transfer to other text; see README.md."

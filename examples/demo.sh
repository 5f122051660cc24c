#!/bin/sh
# Run every step of modtok on the sample text: sh examples/demo.sh [DIRECTORY]
# Lines after "$" are the commands as they run. `make demo` calls this script.
set -eu

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

say "Six languages in three scripts: Greek, English, Finnish, French, Nepali, Swahili." \
    "data/ has text to learn from, parallel/ the same 114 lines in each language to measure" \
    "on, tasks/ questions for the evaluation."
run "modtok sample $workspace"
cd "$workspace"
mkdir results

say "1. LEARN a modular tokenizer. Each language gets 1,500 tokens: it adopts useful tokens of" \
    "   earlier languages and adds its own. 'total' is the size of the whole vocabulary so far;" \
    "   in the end it is smaller than six times 1,500, because languages share tokens."
run "modtok bpe-seq --langs el,en,fi,fr,ne,sw -k 1500"

say "2. EXTRACT the tokenizer of French and English, a tokenizer.json that other programs" \
    "   load, and measure it. NSL is the number of tokens relative to a tokenizer learned for" \
    "   the language alone; lower is better. French and English are near 1. Finnish, which is" \
    "   not in the subset, is much higher."
run "modtok extract --langs fr,en | modtok nsl parallel/en.txt parallel/fr.txt parallel/fi.txt"

say "3. COMPARE with one tokenizer that is learned on all languages together: it is larger than" \
    "   the subset of French and English, and takes more tokens."
run "modtok bpe --langs el,en,fi,fr,ne,sw --joint -k 3000 -o joint -q > results/joint.jsonl"
run "modtok nsl -t joint/tokenizer.json -t tokenizer@en,fr parallel/en.txt parallel/fr.txt --plot -"

say "4. MEASURE every language with the whole vocabulary, and with its own subtokenizer ('each')," \
    "   about a sixth of the size. The rows are kept for the report."
run "modtok nsl -t tokenizer -t tokenizer@each parallel --plot -"
run "modtok inspect --check"

say "5. READ the stories: 2,000 each in English, Finnish and French, about people who help each other." \
    "   A model this small cannot learn a language in minutes, but it can learn these. unseen/ has" \
    "   others to measure on, tasks/mcq/stories questions: somebody is cold, what do they get?"
run "head -n 1 unseen/en.txt unseen/fi.txt unseen/fr.txt"

say "6. PRETRAIN a tiny model (0.7 million parameters and the embedding rows) on the stories. Each" \
    "   batch is one language, tokenized with its own subtokenizer or, half of the time, with the" \
    "   union of it and another language. Only active rows are computed and updated. Watch the" \
    "   bits per byte of stories that it has not read."
run "modtok pretrain --data stories --langs en,fi,fr --sampling sub:1 --mix en=0.3 \\
        --lr 0.005 --seq-length 128 --steps 350 --eval-every 50"

say "7. EVALUATE it: bits per byte with each language's own subtokenizer, then with the whole" \
    "   vocabulary, which takes more; then the questions (guessing gives 25)."
run "modtok eval bpb unseen"
run "modtok eval bpb unseen --infer full"
run "modtok eval mcq --tasks stories --langs en,fi,fr"

say "8. SLICE it to French and English: a directory that transformers opens, with the rows of" \
    "   two languages instead of six. GENERATE from it, then from the whole run with the language" \
    "   found by the prompt."
run "modtok slice --langs fr,en -o fr-en"
run "printf '{\"prompt\": \"Anna lives\"}\n{\"prompt\": \"Emma habite\"}\n' \\
        | modtok generate fr-en --max-tokens 120 | tee results/generated.jsonl"
run "modtok generate --langs auto --max-tokens 120 'Leo asuu'"

say "9. REPORT everything on one page."
run "modtok report -o report.html"

say "Open $workspace/report.html. All files are in $workspace; try more from there:" \
    "    cd $workspace" \
    "    modtok extract --langs ne -o nepali.json" \
    "    modtok inspect --find '^ the'" \
    "    modtok cost runs/latest" \
    "    modtok generate --langs fr 'Le soir'" \
    "    modtok explore" \
    "The texts are tiny: these measurements do not transfer to other text; see README.md."

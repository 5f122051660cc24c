#!/bin/sh
# Train a model with sampled subtokenizers. Run it in a workspace with data/<lang>*.
# MODEL is tiny by default.
#   sh pretraining.sh           MODEL=2.5b GPUS=8 STEPS=100000 sh pretraining.sh
set -eu
model=${MODEL:-tiny}
gpus=${GPUS:-1}

[ -d tokenizer ] || modtok bpe-seq -k "${K:-24000}" -o tokenizer

# Estimate parameters, memory by part, tokens and time per step.
modtok pretrain --sampling sub:2 --model "$model" --gpus "$gpus" --steps "${STEPS:-300}" --dry-run

# After an interruption, run the script again: it resumes from the last checkpoint.
if [ -d runs/first/checkpoints ]; then
    modtok pretrain --resume --name first
else
    modtok pretrain --sampling sub:2 --model "$model" --gpus "$gpus" --steps "${STEPS:-300}" \
        --name first
fi

# Plot held-out bits per byte by language and step.
modtok report -o report.html --force

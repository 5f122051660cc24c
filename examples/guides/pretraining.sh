#!/bin/sh
# For who pretrains: from text to a checkpoint with sampled subtokenizers.
# Run it in a workspace with data/<lang>*. Without a GPU it trains the preset tiny.
#   sh pretraining.sh           MODEL=2.5b GPUS=8 STEPS=100000 sh pretraining.sh
set -eu
model=${MODEL:-tiny}
gpus=${GPUS:-1}

[ -d tokenizer ] || modtok bpe-seq -k "${K:-24000}" -o tokenizer

# What will it take? Parameters, memory by part, tokens, time per step.
modtok pretrain --sampling sub:2 --model "$model" --gpus "$gpus" --steps "${STEPS:-300}" --dry-run

# Interrupted, also by kill -9? Run the script again: it goes on from the last checkpoint.
if [ -d runs/first/checkpoints ]; then
    modtok pretrain --resume --name first
else
    modtok pretrain --sampling sub:2 --model "$model" --gpus "$gpus" --steps "${STEPS:-300}" \
        --name first
fi

# Bits per byte of held-out text, by language, over time.
modtok report -o report.html --force

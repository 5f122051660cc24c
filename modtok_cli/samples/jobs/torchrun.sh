#!/bin/sh
# The paper's 2.5B run on one machine with eight GPUs, in a workspace with data/ and tokenizer/.
# `modtok pretrain --gpus 8` does the same. Run it again to resume from the last checkpoint.
set -eu
name=sub2-2.5b
if [ -f "runs/$name/config.json" ]; then
    options="--resume"
else
    options="--sampling sub:2 --model 2.5b --batch-size 64 --set parallelism.distributed_optimizer=true"
fi
exec torchrun --standalone --nproc-per-node "${GPUS:-8}" --no-python \
    modtok pretrain --name "$name" $options

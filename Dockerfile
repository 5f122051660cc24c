# modtok in an image that runs read-only and without privileges, on a CPU or on GPUs.
#
#   docker build -t modtok .          # or: make image
#   docker run --rm modtok doctor
#   docker build -t modtok:gpu --build-arg DEVICE=gpu .   # or: make image DEVICE=gpu
#   docker run --rm --gpus all --shm-size 8g -v "$PWD:/work" modtok:gpu pretrain --sampling sub:2
#   docker run --rm --read-only --tmpfs /tmp -u "$(id -u):$(id -g)" -v "$PWD:/work" \
#       modtok bpe-seq --langs en,fi,fr
#
# EXTRAS selects what is installed, as in `pip install '.[lm,eval]'`. With --read-only, a GPU needs
# --tmpfs /tmp:exec for the kernels that torch compiles.
ARG DEVICE=cpu
ARG PYTHON=python:3.12-slim
FROM $PYTHON AS build

ARG DEVICE
ARG EXTRAS=lm,eval,plot,published
ARG TORCH=2.13.0
ARG TORCH_CPU=https://download.pytorch.org/whl/cpu

RUN python -m venv /opt/modtok
ENV PATH=/opt/modtok/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# torch first, for a CPU in the build without CUDA; the extras then find it installed.
RUN if [ "$DEVICE" = cpu ]; then index="--index-url $TORCH_CPU"; fi; \
    pip install ${index:-} "torch==$TORCH"
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY modtok_cli modtok_cli
COPY man man
RUN pip install ".[$EXTRAS]"

RUN chmod -R a+rX /opt/modtok

FROM $PYTHON

# OpenMP for torch; a shared library that the slim image lacks. On GPUs torch compiles kernels.
ARG DEVICE
RUN if [ "$DEVICE" = gpu ]; then compiler="gcc libc6-dev"; fi; \
    apt-get update && apt-get install -y --no-install-recommends libgomp1 ${compiler:-} \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/modtok /opt/modtok

ENV PATH=/opt/modtok/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65534:65534
WORKDIR /work
ENTRYPOINT ["modtok"]
CMD ["--help"]

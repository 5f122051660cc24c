# modtok on a CPU, in an image that runs read-only and without privileges.
#
#   docker build -t modtok .
#   docker run --rm modtok doctor
#   docker run --rm --read-only --tmpfs /tmp -u "$(id -u):$(id -g)" -v "$PWD:/work" \
#       modtok bpe-seq --langs en,fi,fr
#
# EXTRAS selects what is installed, as in `pip install '.[lm,eval]'`.
FROM python:3.12-slim AS build

ARG EXTRAS=lm,eval,plot,tiktoken
ARG TORCH=2.13.0

RUN python -m venv /opt/modtok
ENV PATH=/opt/modtok/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# torch first, in the build without CUDA; the extras then find it installed.
RUN pip install --index-url https://download.pytorch.org/whl/cpu "torch==$TORCH"
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY modtok_cli modtok_cli
COPY man man
RUN pip install ".[$EXTRAS]"

RUN chmod -R a+rX /opt/modtok

FROM python:3.12-slim

# OpenMP for torch; a shared library that the slim image lacks.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/modtok /opt/modtok

ENV PATH=/opt/modtok/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65534:65534
WORKDIR /work
ENTRYPOINT ["modtok"]
CMD ["--help"]

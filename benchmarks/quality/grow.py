"""Tokens per word of published tokenizers by added tokens: continued BPE, union, fewest tokens.

    python -m benchmarks grow NAME=TOKENIZER.json ... --data CORPUS --texts NTREX --langs fi,et,ne
    python -m benchmarks grow --model SmolLM2 --data CORPUS --texts NTREX --langs fi --steps 1000

`union` adds the first tokens of a BPE vocabulary of the language that the file lacks, with their
merges after its own; `fewest` segments into the fewest tokens of the same vocabulary. A file with
byte fallback has `continued` only. Also: new tokens that encoding their own string does not give,
whether the library gives the same ids, and the share of words of other languages with other ids.

With `--model` (as `published_models` converts SmolLM2) the model learns: bits per byte of lines of
English and of the language over the whole vocabulary, before, with new rows, and after steps that
train new rows only, on 128 tokens of the language each. First rows of new tokens: `mean` of the
tokens that spell them; `neighbours`, the mean of old
tokens with similar contexts by sparsemax of the cosine (as FOCUS, arXiv 2305.14481); `pursuit`,
the sum of 16 old tokens that orthogonal matching pursuit finds (as mergekit's tokensurgeon). The
contexts are of the text in the new tokens: singular vectors of positive mutual information. The
best of these after 200 steps goes on, as do the mean of the union and a transplant
(`modtok transplant` of sequential BPE, 24,000 tokens of English and of the language).
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse.linalg
import tokenizers
import torch
import transformers

from benchmarks import common
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.grow import _learned, _splits, extended
from modtok_cli.construct.held_out import segmented
from modtok_cli.learn.merges import MAX_UNSPACED
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.model.hf.transplant import transplant
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import UNREACHED, TokenizerFile
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.spelling import LibraryVocabulary, spell_by_merges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import spell

SIZES = (0, 1000, 2000, 4000, 8000)
OTHERS = ("en", "de", "fr", "sv", "el")
CHECKED = (*OTHERS, "fi", "et", "ne", "hu", "es")
LENGTH, LINES, DOCUMENTS = 128, 40, 2000
STEPS, CHOSEN_AT = (0, 100, 200, 500), 200


def main() -> None:
    parser = common.parser_of(__doc__)
    parser.add_argument("tokenizers", nargs="*")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-4, help="after 20 steps")
    parser.add_argument("--rules", default="mean,neighbours,pursuit", help="of first rows")
    parser.add_argument("--methods", default="continued,union,transplant", help="of --model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--langs", default="fi,et,ne")
    options = parser.parse_args()
    if options.model:
        learn(options)
    for each in options.tokenizers:
        name, _, path = each.partition("=")
        file = read_tokenizer_file(Path(path))
        for language in options.langs.split(","):
            for row in rows(file, language, options.data, options.texts):
                common.emit({"tokenizer": name, "language": language, **row})


def rows(file: TokenizerFile, language: str, data: Path, texts: Path):
    """A row for each method and number of tokens."""
    splits = _splits(file)
    counts = count_corpus([data / f"{language}.jsonl.zst"], pretokenizer=splits)
    held = count_corpus([texts / f"{language}.txt"], pretokenizer=splits)
    words = len((texts / f"{language}.txt").read_text("utf-8").split())
    continued = _learned(file, language, counts, SIZES[-1], MAX_UNSPACED, SILENT)
    methods = {"continued": continued}
    if not file.form.of_characters:
        methods["union"] = union(file, counts)
    for method, merges in methods.items():
        for size in SIZES:
            grown = extended(file, merges[:size])
            unreached = int((grown.derivation[file.size :] == UNREACHED).sum())
            row = {"method": method, "added": size, "unreachable": unreached}
            yield {**row, "tokens_per_word": round(tokens(grown, held) / words, 4)}
            if method == "union":
                few = fewest(grown, held) / words
                yield {"method": "fewest", "added": size, "tokens_per_word": round(few, 4)}
    grown = extended(file, continued)
    yield {"method": "continued", "added": SIZES[-1], **checks(file, grown, texts)}


def tokens(file: TokenizerFile, counts: WordCounts) -> int:
    """Tokens of a text."""
    return int(np.diff(segmented(Library(file), counts)[1]) @ counts.counts)


def union(file: TokenizerFile, counts: WordCounts) -> list[tuple[str, str]]:
    """Merges of the first tokens of the language's own vocabulary that the file lacks."""
    own = learn_plain(counts, 2 * SIZES[-1] + 8000).merges
    names = [spell(token) for token in own.strings()]
    new = [
        (names[left], names[right])
        for left, right, result in own.merges.tolist()
        if names[result] not in file.ids
    ]
    return new[: SIZES[-1]]


def fewest(file: TokenizerFile, counts: WordCounts) -> int:
    """Tokens of a text in the segmentation of each word into as few as possible."""
    known = {token for token, added in zip(file.vocabulary.tokens(), file.added, strict=True)
             if not added}  # fmt: skip
    total = 0
    for word, count in counts.pairs():
        best = [0] + [len(word)] * len(word)
        for stop in range(1, len(word) + 1):
            starts = range(max(0, stop - 40), stop)
            best[stop] = min(1 + best[start] for start in starts if word[start:stop] in known)
        total += best[-1] * count
    return total


def checks(file: TokenizerFile, grown: TokenizerFile, texts: Path) -> dict[str, object]:
    """Old ids, ids of the library, and words of other languages with other ids."""
    library = tokenizers.Tokenizer.from_buffer(
        grown.restricted(np.arange(grown.size, dtype=np.int32))
    )
    library.encode_special_tokens = True
    ours = Subtokenizer(Library(grown))
    texts_equal, changed = 0, {}
    for name in CHECKED:
        path = texts / f"{name}.txt"
        lines = path.read_text("utf-8").split("\n")[:200]
        theirs = library.encode_batch(lines, add_special_tokens=False)
        counts = count_corpus([path], pretokenizer=_splits(file))
        pairs = zip(ours.encode_batch(lines), theirs, strict=True)
        texts_equal += sum(ids.tolist() == each.ids for ids, each in pairs)
        if name in OTHERS:
            before, after = segmented(Library(file), counts), segmented(Library(grown), counts)
            same = [
                np.array_equal(before[0][a:b], after[0][c:d])
                for a, b, c, d in zip(
                    before[1], before[1][1:], after[1], after[1][1:], strict=False
                )
            ]
            share = 1 - int(np.array(same) @ counts.counts) / counts.occurrences
            changed[name] = round(share, 5)
    kept = all(grown.ids[name] == index for name, index in file.ids.items())
    return {"old_ids": kept, "equal_lines": texts_equal, "lines": 200 * len(CHECKED),
            "words_changed": changed}  # fmt: skip


def learn(options: argparse.Namespace) -> None:
    """Print bits per byte of a model that learns new rows."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    base = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.bfloat16)
    base.requires_grad_(False)
    for language in options.langs.split(","):
        methods = ("none", *options.methods.split(","))
        learners = grown_models(base, options, language)
        learners = [each for each in learners if each.name["method"] in methods]
        rules = sum(each.name["method"] == "continued" for each in learners)
        for steps in (*(each for each in STEPS if each < options.steps), options.steps):
            if rules and steps > CHOSEN_AT:
                best = min(learners[:rules], key=lambda each: each.last[language])
                learners, rules = [best, *learners[rules:]], 1
            if steps:  # the model itself has no new rows
                learners = [each for each in learners if len(each.new)]
            for learner in learners:
                seconds = learner.train(steps, options.lr)
                learner.last = learner.bits(options.texts, ("en", language))
                row = {**learner.name, "language": language, "lr": options.lr, "step": learner.step}
                common.emit({**row, "bits_per_byte": learner.last, "seconds_per_step": seconds})


class Learner:
    """A model whose new rows learn; the rows are the last of its tables.

    Args:
        rows: the table, (V, d); it is for the input and the output.
        is_new: rows that learn, (V,) bool.
        encode: text → ids.
        end: id of the end of text.
    """

    def __init__(self, base, name, rows, is_new, encode, end, documents):
        order = torch.cat([torch.nonzero(~is_new)[:, 0], torch.nonzero(is_new)[:, 0]])
        self.place = torch.empty_like(order)
        self.place[order] = torch.arange(len(order))
        self.old = rows[order[: int((~is_new).sum())]].bfloat16()
        self.new = torch.nn.Parameter(rows[order[len(self.old) :]].float())
        self.base, self.name, self.encode, self.end, self.step = base, name, encode, end, 0
        self.optimizer = torch.optim.Adam([self.new], betas=(0.9, 0.95))
        self.last = {}
        ids = [torch.from_numpy(each).long() for each in encode(documents)]
        self.stream = torch.cat([part for each in ids for part in (torch.tensor([end]), each)])

    def losses(self, ids):
        """Nats of each token of (B, T + 1) ids after the first."""
        ids = self.place[ids]
        new = self.new.bfloat16()
        inputs = ids[:, :-1]
        if len(new):
            at = (inputs - len(self.old)).clamp(min=0)
            old = torch.nn.functional.embedding(inputs.clamp(max=len(self.old) - 1), self.old)
            added = torch.nn.functional.embedding(at, new)
            embedded = torch.where((inputs >= len(self.old))[..., None], added, old)
        else:
            embedded = torch.nn.functional.embedding(inputs, self.old)
        hidden = self.base.model(inputs_embeds=embedded).last_hidden_state
        logits = torch.cat([hidden @ self.old.T, hidden @ new.T], -1).float()
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        )

    def train(self, until, rate):
        """Train up to a step; processor seconds of a step."""
        began, first = time.process_time(), self.step
        while self.step < until:
            self.optimizer.param_groups[0]["lr"] = rate * min(1, (self.step + 1) / 20)
            draw = torch.Generator().manual_seed(self.step)
            at = int(torch.randint(len(self.stream) - LENGTH - 1, (), generator=draw))
            self.optimizer.zero_grad()
            self.losses(self.stream[None, at : at + LENGTH + 1]).mean().backward()
            self.optimizer.step()
            self.step += 1
        steps = self.step - first
        return round((time.process_time() - began) / steps, 2) if steps else None

    def bits(self, texts, languages):
        """Bits per byte of lines, each after an end of text."""
        found = {}
        for language in languages:
            lines = (texts / f"{language}.txt").read_text("utf-8").split("\n")[:LINES]
            nats = 0.0
            with torch.no_grad():
                for ids in self.encode(lines):
                    whole = torch.cat([torch.tensor([self.end]), torch.from_numpy(ids).long()])
                    nats += float(self.losses(whole[None]).sum())
            found[language] = round(nats / log(2) / sum(len(line.encode()) for line in lines), 4)
        return found


def grown_models(base, options: argparse.Namespace, language: str):
    """The model itself, and with the rows of each method."""
    path, data, rules = options.model, options.data, options.rules.split(",")
    file = read_tokenizer_file(path)
    source = data / f"{language}.jsonl.zst"
    documents = list(islice(common.texts(source), DOCUMENTS))
    counts = count_corpus([source], pretokenizer=_splits(file))
    end = file.ids["<|endoftext|>"]
    old = base.model.embed_tokens.weight.float()
    grown = extended(file, _learned(file, language, counts, SIZES[-1], MAX_UNSPACED, SILENT))
    united = extended(file, union(file, counts))
    encode = Subtokenizer(Library(grown)).encode_batch
    is_new = torch.arange(grown.size) >= file.size
    for init, rows in first_rows(old, grown, file.size, rules, encode, source):
        name = {"method": "continued", "rows": init}
        yield Learner(base, name, rows, is_new, encode, end, documents)
    rows = mean_rows(old, spell_by_merges(united, file.size))
    name = {"method": "union", "rows": "mean"}
    encode = Subtokenizer(Library(united)).encode_batch
    yield Learner(base, name, rows, torch.arange(united.size) >= file.size, encode, end, documents)
    with TemporaryDirectory() as scratch:
        place = Path(scratch)
        bpe_seq(f"en,{language}", data=data, k=24000, output=place / "t", references=False)
        transplant(path, str(place / "t"), output=place / "model")
        rows = transformers.AutoModelForCausalLM.from_pretrained(
            place / "model", dtype=torch.float32
        ).model.embed_tokens.weight.detach()
        made = ModularTokenizer.load(place / "t").full()
    vocabulary = LibraryVocabulary((path / "tokenizer.json").read_bytes(), str(path))
    lengths = np.pad(vocabulary.spell(made.vocabulary).lengths, (0, len(rows) - len(made)),
                     constant_values=1)  # fmt: skip
    name = {"method": "transplant", "rows": "mean"}
    is_new = torch.from_numpy(lengths != 1)
    yield Learner(base, name, rows, is_new, made.encode_batch, 0, documents)
    encode = Subtokenizer(Library(file)).encode_batch
    none = torch.zeros(file.size, dtype=torch.bool)
    yield Learner(base, {"method": "none", "rows": "own"}, old, none, encode, end, documents[:1])


def mean_rows(old, spelling):
    """Means of the rows that spell each token, (V, d); of all rows for one that is not spelled."""
    ids, lengths = torch.from_numpy(spelling.ids).long(), torch.from_numpy(spelling.lengths)
    token = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    rows = torch.zeros(len(lengths), old.shape[1]).index_add_(0, token, old[ids])
    return torch.where((lengths > 0)[:, None], rows / lengths[:, None], old.mean(0))


def context_vectors(encoded, size, window=5, width=256):
    """Unit vectors of tokens by their neighbours in a text, (V, 256); 0 where there are none."""
    total = scipy.sparse.csr_matrix((size, size))
    for distance in range(1, window + 1):
        left = np.concatenate([ids[:-distance] for ids in encoded if len(ids) > distance])
        right = np.concatenate([ids[distance:] for ids in encoded if len(ids) > distance])
        ones = np.full(len(left), 1 / distance)
        total = total + scipy.sparse.csr_matrix((ones, (left, right)), (size, size))
    total = (total + total.T).tocoo()
    sums = np.asarray(total.tocsr().sum(1))[:, 0]
    smooth = sums**0.75
    smooth /= smooth.sum()
    pmi = np.log(total.data / (sums[total.row] * smooth[total.col]))
    kept = pmi > 0
    matrix = scipy.sparse.csr_matrix((pmi[kept], (total.row[kept], total.col[kept])), (size, size))
    vectors, values, _ = scipy.sparse.linalg.svds(matrix, k=width, random_state=0)
    vectors = torch.from_numpy(vectors * np.sqrt(values)).float()
    return torch.nn.functional.normalize(vectors, dim=1)


def first_rows(old, grown, known, rules, encode, source):
    """The table of a grown file for each rule for new rows."""
    mean = mean_rows(old, spell_by_merges(grown, known))
    for rule in rules:
        rows = mean.clone()
        if rule != "mean":
            contexts = context_vectors(encode(list(common.texts(source))), grown.size)
            anchors = torch.nonzero(contexts[:known].norm(dim=1) > 0.5)[:, 0]
            new = known + torch.nonzero(contexts[known:].norm(dim=1) > 0.5)[:, 0]
            for block in torch.split(new, 1000):  # what has no context keeps the mean
                rows[block] = RULES[rule](contexts[block], contexts[anchors], old[anchors])
        yield rule, rows


def neighbours(vectors, anchors, rows):
    """Means of rows by sparsemax of cosines."""
    scores = vectors @ anchors.T
    ordered = scores.sort(dim=1, descending=True).values
    sums = ordered.cumsum(1) - 1
    count = (ordered * torch.arange(1, ordered.shape[1] + 1) > sums).sum(1, keepdim=True)
    return (scores - sums.gather(1, count - 1) / count).clamp(min=0) @ rows


def pursuit(vectors, anchors, rows, parts=16):
    """Sums of rows by orthogonal matching pursuit."""
    rest, chosen = vectors, torch.empty(len(vectors), 0, dtype=torch.long)
    for _ in range(parts):
        scores = (rest @ anchors.T).abs()
        scores.scatter_(1, chosen, -1)
        chosen = torch.cat([chosen, scores.argmax(1, keepdim=True)], 1)
        basis = anchors[chosen].transpose(1, 2)
        factors = torch.linalg.lstsq(basis, vectors[..., None]).solution
        rest = vectors - (basis @ factors)[..., 0]
    return (rows[chosen].transpose(1, 2) @ factors)[..., 0]


RULES = {"neighbours": neighbours, "pursuit": pursuit}

"""Drafts with reduced heads: coverage and accepted tokens by language, list and size.

    python -m benchmarks draft_acceptance MODEL --data CORPUS --prompts NTREX

MODEL is a directory that transformers opens. It drafts for itself, and with `--layers` so do its
first so many layers, with its norm and head. CORPUS has LANG.jsonl.zst, of which nine tenths of the
documents rank lists: by English (as FR-Spec does), by all languages, by each language with English.
`coverage` is the share of the other tenth that a list has. The first `--lines` of PROMPTS are
continued by `modtok_cli.model.draft.acceptance`, greedily, with four drafted tokens a round.
The default languages are those of Multi-SpecBench (AdaSpec, AAAI 2026), but Czech, Greek and Telugu
in place of Vietnamese, Japanese and Chinese. Prints JSON lines.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers

from benchmarks.common import emit, parser_of
from modtok_cli.model.draft.acceptance import Pair
from modtok_cli.model.draft.draft_vocabulary import DraftVocabulary
from modtok_cli.model.draft.ranking import Ranking


def shallow(model: Path, place: Path, layers: int) -> Path:
    """The first layers of a model, with its norm, head and tokenizer, as a directory."""
    config = transformers.AutoConfig.from_pretrained(model)
    config.num_hidden_layers = layers
    kept = transformers.AutoModelForCausalLM.from_pretrained(model, config=config)
    kept.save_pretrained(place)
    shutil.copy(model / "tokenizer.json", place)
    return place


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--langs", default="en,de,es,fr,cs,el,te")
    parser.add_argument("--sizes", default="4096,8192,16384")
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--layers", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    languages, sizes = args.langs.split(","), [*map(int, args.sizes.split(","))]
    vocabulary = DraftVocabulary.open(str(args.model))
    used = vocabulary.count(args.data, languages, hold_out=True)
    kept = {name: counts for name, (counts, _) in used.items()}
    english, every = Ranking.of(vocabulary, {"en": kept["en"]}), Ranking.of(vocabulary, kept)
    texts = vocabulary.first_texts(args.prompts, languages, args.lines)
    with TemporaryDirectory() as scratch:
        drafts = {"itself": args.model}
        if args.layers:
            place = Path(scratch) / "draft"
            drafts[f"{args.layers} layers"] = shallow(args.model, place, args.layers)
        for name, draft in drafts.items():
            pair = Pair(args.model, draft)
            for language in languages:
                both = {each: kept[each] for each in {language, "en"}}
                rankings = {
                    "english": english,
                    "languages": every,
                    "own and English": Ranking.of(vocabulary, both),
                }
                cuts = [
                    (by, size, ranking) for by, ranking in rankings.items() for size in sizes
                ] + [("all", len(every.order), every)]
                lists = [ranking.first(size) for _, size, ranking in cuts]
                found = pair.rounds(texts[language], lists)
                for (by, size, ranking), rounds in zip(cuts, found, strict=True):
                    emit(
                        {
                            "model": args.model.name,
                            "draft": name,
                            "ranked_by": by,
                            "rows": size,
                            "language": language,
                            "coverage": round(ranking.coverage(used[language][1], [size])[0], 4),
                            "prompts": len(texts[language]),
                            **{key: round(value, 4) for key, value in rounds.row().items()},
                        }
                    )

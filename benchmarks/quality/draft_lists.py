"""How much of held-out text draft vocabularies of published tokenizers cover, by who ranked them.

    python -m benchmarks draft_lists DIR... --data CORPUS [--documents 3000]

DIR has a tokenizer.json, as packages ship it. CORPUS has LANG.jsonl.zst. Lists are ranked by nine
tenths of the documents of each language, by `modtok_cli.model.draft`, and measured on the
others. "english" and "pooled" rank by the count of each token in English, and in the text of all
languages together; "languages" by the mean share over all; "own" by the language that is measured,
"own and English" by it and English. `least` is the coverage of the `worst` language. Prints JSON
lines.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import orjson

from benchmarks.common import LANGUAGES, emit, parser_of, texts
from modtok_cli.model.draft.draft_vocabulary import Counts, DraftVocabulary
from modtok_cli.model.draft.ranking import Ranking


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizers", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=3000, help="first so many of a language")
    parser.add_argument("--sizes", default="4096,8192,16384,32768,65536")
    args = parser.parse_args()
    sizes = [*map(int, args.sizes.split(","))]
    scratch = Path(mkdtemp())
    for language in LANGUAGES:
        some = islice(texts(args.data / f"{language}.jsonl.zst"), args.documents)
        lines = (orjson.dumps({"text": text}) + b"\n" for text in some)
        (scratch / f"{language}.jsonl").write_bytes(b"".join(lines))
    for path in args.tokenizers:
        file = path / "tokenizer.json" if path.is_dir() else path
        vocabulary = DraftVocabulary.open(str(file))
        published = path.parent.name if path.name == "models" else path.name
        used = vocabulary.count(scratch, LANGUAGES, hold_out=True)
        kept = {name: counts for name, (counts, _) in used.items()}

        def ranked(counts: Counts, vocabulary: DraftVocabulary = vocabulary) -> Ranking:
            return Ranking.of(vocabulary, counts)

        pooled = ranked({"all": np.sum([*kept.values()], axis=0)})
        english, every = ranked({"en": kept["en"]}), ranked(kept)
        rankings = {
            "english": dict.fromkeys(kept, english),
            "pooled": dict.fromkeys(kept, pooled),
            "languages": dict.fromkeys(kept, every),
            "own": {name: ranked({name: counts}) for name, counts in kept.items()},
            "own and English": {
                name: ranked({name: counts, "en": kept["en"]}) for name, counts in kept.items()
            },
        }
        for name, of in rankings.items():
            shares = {language: of[language].coverage(held, sizes)
                      for language, (_, held) in used.items()}  # fmt: skip
            for place, size in enumerate(sizes):
                here = {language: round(each[place], 4) for language, each in shares.items()}
                worst = min(here, key=lambda language: here[language])
                mean = round(float(np.mean([*here.values()])), 4)
                emit(
                    {
                        "tokenizer": published,
                        "tokens": int(vocabulary.tokens.sum()),
                        "needed": english.needed,
                        "ranked_by": name,
                        "size": size,
                        "mean": mean,
                        "least": here[worst],
                        "worst": worst,
                        "coverage": here,
                    }
                )

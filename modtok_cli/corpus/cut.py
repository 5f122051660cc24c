"""The quality score above which pages of each language are kept."""

from __future__ import annotations

from collections import Counter

from modtok_cli.corpus.plan import Plan, read_json
from modtok_cli.corpus.quality import cut_of


def quality_cuts(plan: Plan) -> dict[str, float]:
    """Minimum score to keep by language, from the histograms of all shards; {} without `top`."""
    if plan.settings.quality_top is None:
        return {}
    totals: dict[str, Counter[float]] = {}
    for path in sorted((plan.work / "scores").glob("*.json")):
        for language, counted in read_json(path).items():
            total = totals.setdefault(language, Counter())
            total.update({float(score): number for score, number in counted.items()})
    return {
        language: cut_of(dict(total), plan.settings.quality_top)
        for language, total in totals.items()
    }

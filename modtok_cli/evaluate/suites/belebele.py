"""BeleBele: questions on short passages of FLORES."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite

# FLORES code of each language.
CODES = {
    "af": "afr_Latn", "am": "amh_Ethi", "ar": "arb_Arab", "az": "azj_Latn", "bg": "bul_Cyrl",
    "bn": "ben_Beng", "ca": "cat_Latn", "cs": "ces_Latn", "da": "dan_Latn", "de": "deu_Latn",
    "el": "ell_Grek", "en": "eng_Latn", "es": "spa_Latn", "et": "est_Latn", "eu": "eus_Latn",
    "fa": "pes_Arab", "fi": "fin_Latn", "fr": "fra_Latn", "gu": "guj_Gujr", "ha": "hau_Latn",
    "he": "heb_Hebr", "hi": "hin_Deva", "hr": "hrv_Latn", "hu": "hun_Latn", "hy": "hye_Armn",
    "id": "ind_Latn", "is": "isl_Latn", "it": "ita_Latn", "ja": "jpn_Jpan", "ka": "kat_Geor",
    "kk": "kaz_Cyrl", "km": "khm_Khmr", "kn": "kan_Knda", "ko": "kor_Hang", "lo": "lao_Laoo",
    "lt": "lit_Latn", "lv": "lvs_Latn", "mk": "mkd_Cyrl", "ml": "mal_Mlym", "mr": "mar_Deva",
    "ms": "zsm_Latn", "mt": "mlt_Latn", "my": "mya_Mymr", "ne": "npi_Deva", "nl": "nld_Latn",
    "nb": "nob_Latn", "pa": "pan_Guru", "pl": "pol_Latn", "pt": "por_Latn", "ro": "ron_Latn",
    "ru": "rus_Cyrl", "si": "sin_Sinh", "sk": "slk_Latn", "sl": "slv_Latn", "so": "som_Latn",
    "sq": "als_Latn", "sr": "srp_Cyrl", "sv": "swe_Latn", "sw": "swh_Latn", "ta": "tam_Taml",
    "te": "tel_Telu", "tg": "tgk_Cyrl", "th": "tha_Thai", "tr": "tur_Latn", "uk": "ukr_Cyrl",
    "ur": "urd_Arab", "uz": "uzn_Latn", "vi": "vie_Latn", "xh": "xho_Latn", "yo": "yor_Latn",
    "zh": "zho_Hans", "zu": "zul_Latn",
}  # fmt: skip


def convert(row: Row) -> Row:
    """Row of the dataset: `flores_passage`, `question`, `mc_answer1` to `mc_answer4`."""
    return {
        "context": row["flores_passage"].strip(),
        "question": row["question"].strip(),
        "choices": [row[f"mc_answer{number}"] for number in range(1, 5)],
        "answer": int(row["correct_answer_num"]) - 1,
    }


SUITES = (
    Suite(
        task="belebele",
        title="BeleBele",
        about="questions on short passages",
        prompt="{context}\n{Question}: {question}\n{Answer}:",
        shots=0,
        normalization="characters",
        hub=(HubSource("facebook/belebele", CODES, "test", convert, config="{code}"),),
        order=50,
    ),
)

"""Language codes of EU20, the translations of English suites published by openGPT-X."""

from __future__ import annotations

CODES = {
    "bg": "BG", "cs": "CS", "da": "DA", "de": "DE", "el": "EL", "es": "ES", "et": "ET",
    "fi": "FI", "fr": "FR", "hu": "HU", "it": "IT", "lt": "LT", "lv": "LV", "nl": "NL",
    "pl": "PL", "pt": "PT-PT", "ro": "RO", "sk": "SK", "sl": "SL", "sv": "SV",
}  # fmt: skip

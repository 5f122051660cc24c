"""Measurements of tokenizers on texts: tables, studies, plots and the report."""

"""Evaluation of a trained model under any inference vocabulary: choices, translation, summaries."""

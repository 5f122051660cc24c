"""Processes and ranks."""

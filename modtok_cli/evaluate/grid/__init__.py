"""Runs × tasks × languages × inference modes, evaluated cell by cell."""

"""Rows of any command as charts, tables and pages."""

"""Vocabulary rows: tables, gathering, sparse updates, and tables in host memory."""

"""Text in six languages to try modtok with, and stories that a tiny model learns in minutes."""

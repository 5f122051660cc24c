"""The functions that `import modtok_cli as modtok` exports: strings in, results out."""
